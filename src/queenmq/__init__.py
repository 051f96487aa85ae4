"""Queen: a partitioned message queue on PostgreSQL.

Owns the public names, resolved on first use. Importing the package must pull in neither
the database driver, the web stack nor Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from queenmq.version import VERSION

if TYPE_CHECKING:
    from queenmq.client.client import Queen as Queen
    from queenmq.client.errors import (
        BadRequest as BadRequest,
    )
    from queenmq.client.errors import (
        BufferFailed as BufferFailed,
    )
    from queenmq.client.errors import (
        ClientClosed as ClientClosed,
    )
    from queenmq.client.errors import (
        ClientError as ClientError,
    )
    from queenmq.client.errors import (
        HandlerFailed as HandlerFailed,
    )
    from queenmq.client.errors import (
        LeaseLost as LeaseLost,
    )
    from queenmq.client.errors import (
        NotAllowed as NotAllowed,
    )
    from queenmq.client.errors import (
        NotFound as NotFound,
    )
    from queenmq.client.errors import (
        OperationFailed as OperationFailed,
    )
    from queenmq.client.errors import (
        Overloaded as Overloaded,
    )
    from queenmq.client.errors import (
        PayloadMismatch as PayloadMismatch,
    )
    from queenmq.client.errors import (
        PushFailed as PushFailed,
    )
    from queenmq.client.errors import (
        RequestFailed as RequestFailed,
    )
    from queenmq.client.errors import (
        TransactionFailed as TransactionFailed,
    )
    from queenmq.client.errors import (
        Unreachable as Unreachable,
    )
    from queenmq.client.errors import (
        UnreadablePayload as UnreadablePayload,
    )
    from queenmq.client.message import DeadLetter as DeadLetter
    from queenmq.client.message import Message as Message
    from queenmq.client.streams.gates import sliding_window_gate as sliding_window_gate
    from queenmq.client.streams.gates import token_bucket_gate as token_bucket_gate
    from queenmq.client.streams.stream import Stream as Stream
    from queenmq.client.sync import SyncQueen as SyncQueen
    from queenmq.errors import QueenError as QueenError

__version__ = VERSION

__all__ = [
    "BadRequest",
    "BufferFailed",
    "ClientClosed",
    "ClientError",
    "DeadLetter",
    "HandlerFailed",
    "LeaseLost",
    "Message",
    "NotAllowed",
    "NotFound",
    "OperationFailed",
    "Overloaded",
    "PayloadMismatch",
    "PushFailed",
    "Queen",
    "QueenError",
    "RequestFailed",
    "Stream",
    "SyncQueen",
    "TransactionFailed",
    "Unreachable",
    "UnreadablePayload",
    "__version__",
    "sliding_window_gate",
    "token_bucket_gate",
]

#: Public name to the module that defines it; `__all__` lists the same names.
_PUBLIC: dict[str, str] = {
    "Queen": "queenmq.client.client",
    "SyncQueen": "queenmq.client.sync",
    "Message": "queenmq.client.message",
    "DeadLetter": "queenmq.client.message",
    "Stream": "queenmq.client.streams.stream",
    "sliding_window_gate": "queenmq.client.streams.gates",
    "token_bucket_gate": "queenmq.client.streams.gates",
    "QueenError": "queenmq.errors",
    "BadRequest": "queenmq.client.errors",
    "BufferFailed": "queenmq.client.errors",
    "ClientClosed": "queenmq.client.errors",
    "ClientError": "queenmq.client.errors",
    "HandlerFailed": "queenmq.client.errors",
    "LeaseLost": "queenmq.client.errors",
    "NotAllowed": "queenmq.client.errors",
    "NotFound": "queenmq.client.errors",
    "OperationFailed": "queenmq.client.errors",
    "Overloaded": "queenmq.client.errors",
    "PayloadMismatch": "queenmq.client.errors",
    "PushFailed": "queenmq.client.errors",
    "RequestFailed": "queenmq.client.errors",
    "TransactionFailed": "queenmq.client.errors",
    "Unreachable": "queenmq.client.errors",
    "UnreadablePayload": "queenmq.client.errors",
}


def __getattr__(name: str) -> object:
    """Import a public name's module the first time the name is asked for."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
