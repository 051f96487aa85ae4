"""Queen: a partitioned message queue on PostgreSQL.

Owns the public names, resolved on first use. Importing the package must pull in neither the
database driver, the web stack nor Spark. What is not listed in `__all__` here, in
`queenmq.wire` or in `queenmq.testing` may change without notice; docs/client.md says more.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING

from queenmq.version import VERSION

if TYPE_CHECKING:
    from queenmq.client.builders import Buffered as Buffered
    from queenmq.client.client import Queen as Queen
    from queenmq.client.consume.ack_client import AckResults as AckResults
    from queenmq.client.consume.ack_client import Renewal as Renewal
    from queenmq.client.errors import BadRequest as BadRequest
    from queenmq.client.errors import BufferFailed as BufferFailed
    from queenmq.client.errors import ClientClosed as ClientClosed
    from queenmq.client.errors import ClientError as ClientError
    from queenmq.client.errors import HandlerFailed as HandlerFailed
    from queenmq.client.errors import LeaseExpired as LeaseExpired
    from queenmq.client.errors import NotAllowed as NotAllowed
    from queenmq.client.errors import OperationFailed as OperationFailed
    from queenmq.client.errors import PayloadMismatch as PayloadMismatch
    from queenmq.client.errors import PushFailed as PushFailed
    from queenmq.client.errors import RequestFailed as RequestFailed
    from queenmq.client.errors import ResourceConflict as ResourceConflict
    from queenmq.client.errors import ResourceNotFound as ResourceNotFound
    from queenmq.client.errors import ServerBusy as ServerBusy
    from queenmq.client.errors import TransactionFailed as TransactionFailed
    from queenmq.client.errors import Unreachable as Unreachable
    from queenmq.client.errors import UnreadablePayload as UnreadablePayload
    from queenmq.client.message import DeadLetter as DeadLetter
    from queenmq.client.message import DeadLetters as DeadLetters
    from queenmq.client.message import Message as Message
    from queenmq.client.message import TraceOutcome as TraceOutcome
    from queenmq.client.push.buffers import BufferStats as BufferStats
    from queenmq.client.streams.gates import sliding_window_gate as sliding_window_gate
    from queenmq.client.streams.gates import token_bucket_gate as token_bucket_gate
    from queenmq.client.streams.stream import Stream as Stream
    from queenmq.client.sync.client import SyncQueen as SyncQueen
    from queenmq.errors import QueenError as QueenError
    from queenmq.wire import AckResult as AckResult
    from queenmq.wire import PushResult as PushResult
    from queenmq.wire import QueueOptions as QueueOptions
    from queenmq.wire import TransactionAnswer as TransactionAnswer

__version__ = VERSION

__all__ = [
    "AckResult",
    "AckResults",
    "BadRequest",
    "BufferFailed",
    "BufferStats",
    "Buffered",
    "ClientClosed",
    "ClientError",
    "DeadLetter",
    "DeadLetters",
    "HandlerFailed",
    "LeaseExpired",
    "Message",
    "NotAllowed",
    "OperationFailed",
    "PayloadMismatch",
    "PushFailed",
    "PushResult",
    "Queen",
    "QueenError",
    "QueueOptions",
    "Renewal",
    "RequestFailed",
    "ResourceConflict",
    "ResourceNotFound",
    "ServerBusy",
    "Stream",
    "SyncQueen",
    "TraceOutcome",
    "TransactionAnswer",
    "TransactionFailed",
    "Unreachable",
    "UnreadablePayload",
    "__version__",
    "sliding_window_gate",
    "token_bucket_gate",
]

#: Public name to the module that defines it; `__all__` lists the same names.
_PUBLIC: dict[str, str] = {
    "AckResult": "queenmq.wire",
    "AckResults": "queenmq.client.consume.ack_client",
    "BadRequest": "queenmq.client.errors",
    "BufferFailed": "queenmq.client.errors",
    "BufferStats": "queenmq.client.push.buffers",
    "Buffered": "queenmq.client.builders",
    "ClientClosed": "queenmq.client.errors",
    "ClientError": "queenmq.client.errors",
    "DeadLetter": "queenmq.client.message",
    "DeadLetters": "queenmq.client.message",
    "HandlerFailed": "queenmq.client.errors",
    "LeaseExpired": "queenmq.client.errors",
    "Message": "queenmq.client.message",
    "NotAllowed": "queenmq.client.errors",
    "OperationFailed": "queenmq.client.errors",
    "PayloadMismatch": "queenmq.client.errors",
    "PushFailed": "queenmq.client.errors",
    "PushResult": "queenmq.wire",
    "Queen": "queenmq.client.client",
    "QueenError": "queenmq.errors",
    "QueueOptions": "queenmq.wire",
    "Renewal": "queenmq.client.consume.ack_client",
    "RequestFailed": "queenmq.client.errors",
    "ResourceConflict": "queenmq.client.errors",
    "ResourceNotFound": "queenmq.client.errors",
    "ServerBusy": "queenmq.client.errors",
    "Stream": "queenmq.client.streams.stream",
    "SyncQueen": "queenmq.client.sync.client",
    "TraceOutcome": "queenmq.client.message",
    "TransactionAnswer": "queenmq.wire",
    "TransactionFailed": "queenmq.client.errors",
    "Unreachable": "queenmq.client.errors",
    "UnreadablePayload": "queenmq.client.errors",
    "sliding_window_gate": "queenmq.client.streams.gates",
    "token_bucket_gate": "queenmq.client.streams.gates",
}
#: Errors that had other names in release 0.1.
_RENAMED = {
    "LeaseLost": "LeaseExpired",
    "NotFound": "ResourceNotFound",
    "Overloaded": "ServerBusy",
}


def __getattr__(name: str) -> object:
    """Import a public name's module the first time the name is asked for."""
    if name in _RENAMED:
        now = _RENAMED[name]
        text = f"queenmq.{name} was renamed to queenmq.{now}; release 0.3 removes the old name"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        name = now
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
