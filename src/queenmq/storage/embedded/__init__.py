"""The PostgreSQL server that the broker starts, keeps alive and stops.

The broker's process owns an `EmbeddedPostgres`. A small keeper process is the parent of postgres
and outlives a killed broker just long enough to stop the server cleanly. ADR 0003 has the reasons.

Names are resolved on first use, because the keeper imports this package and must stay light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queenmq.storage.embedded.errors import (
        BinariesMissing,
        ClusterVersionMismatch,
        DataDirInUse,
        DataDirUnusable,
        EmbeddedPostgresError,
        NoClusterFound,
        PostgresFailed,
        RunAsImpossible,
    )
    from queenmq.storage.embedded.layout import read_url
    from queenmq.storage.embedded.supervisor import EmbeddedPostgres

__all__ = [
    "BinariesMissing",
    "ClusterVersionMismatch",
    "DataDirInUse",
    "DataDirUnusable",
    "EmbeddedPostgres",
    "EmbeddedPostgresError",
    "NoClusterFound",
    "PostgresFailed",
    "RunAsImpossible",
    "read_url",
]

_HOMES = {"EmbeddedPostgres": "supervisor", "read_url": "layout"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
