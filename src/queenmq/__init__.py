"""Queen: a partitioned message queue on PostgreSQL.

Owns the public names, resolved on first use. Importing the package must pull in neither
the database driver, the web stack nor Spark.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

__all__ = ["__version__"]

#: Public name to the module that defines it; `__all__` lists the same names.
_PUBLIC: dict[str, str] = {}


def __getattr__(name: str) -> object:
    """Import a public name's module the first time the name is asked for."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
