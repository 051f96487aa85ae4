"""The errors that the client raises.

    QueenError
    └── ClientError
        ├── RequestFailed           a server answered with a refusal
        │   ├── BadRequest          the request is invalid (400, 413, ...)
        │   ├── NotAllowed          no token, an invalid one, or missing rights (401, 403)
        │   ├── ResourceNotFound    no such route, queue, partition or lease (404)
        │   ├── ResourceConflict    the thing is in a state that does not allow it (409)
        │   │   └── LeaseExpired    the lease is no longer live (409, code lease_lost)
        │   └── ServerBusy          overload or outage; a retry may work (429, 503)
        ├── Unreachable             no server gave an answer
        ├── PushFailed              some items of a push were not stored
        ├── TransactionFailed       a transaction was refused as a whole
        ├── OperationFailed         a queued push failed or did not end in time
        ├── BufferFailed            buffered messages could not be delivered
        ├── PayloadMismatch         a payload does not fit the given type
        ├── UnreadablePayload       a payload is JSON that Python cannot hold
        ├── HandlerFailed           a handler with auto_ack off raised
        └── ClientClosed            the client was closed before the call

A message names the problem, the value and the fix. No class name is shared with the broker's errors
in `queenmq.errors`: a client only catches errors of this tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from queenmq.errors import QueenError
from queenmq.wire import PushResult


class ClientError(QueenError):
    """Base of all errors of the client."""


class RequestFailed(ClientError):
    """A server answered with an error status."""

    def __init__(self, status: int, reason: str, where: str, code: str | None = None) -> None:
        super().__init__(f"{where} was answered {status}: {reason}")
        #: The HTTP status.
        self.status = status
        #: The server's error text.
        self.reason = reason
        #: The server's error code; docs/api.md lists them. None if it sent none.
        self.code = code
        #: Whether an earlier try may have been carried out: it got no answer, or a status of 5xx.
        self.is_repeated = False


class BadRequest(RequestFailed):
    """The request is invalid."""


class NotAllowed(RequestFailed):
    """The token is missing, invalid, or lacks rights."""


class ResourceNotFound(RequestFailed):
    """The thing named in the request does not exist."""


class ResourceConflict(RequestFailed):
    """The thing named in the request is in a state that does not allow it."""


class LeaseExpired(ResourceConflict):
    """The lease has expired or was completed."""


class ServerBusy(RequestFailed):
    """The server cannot accept the request now."""


class Unreachable(ClientError):
    """No server gave an answer."""


class PushFailed(ClientError):
    """Items of a push were not stored. `results` has the answer to each."""

    def __init__(self, results: Sequence[PushResult]) -> None:
        refused = [one for one in results if one.status == "failed"]
        why = refused[0].error if refused else "refused"
        super().__init__(
            f"{len(refused)} of {len(results)} items were not stored ({why}); "
            "push the failed ones of `results` again later"
        )
        self.results = list(results)


class TransactionFailed(ClientError):
    """A transaction was refused as a whole."""

    def __init__(self, reason: str, *, is_uncertain: bool = False) -> None:
        text = f"the transaction was refused ({reason}); nothing was changed"
        if is_uncertain:
            text = (
                f"the transaction was refused ({reason}) after a try without a clear answer; "
                "it may have been committed, so check before you repeat it"
            )
        super().__init__(text)
        self.reason = reason
        #: An earlier attempt had no answer, or a status of 5xx, and may have succeeded.
        self.is_uncertain = is_uncertain


class OperationFailed(ClientError):
    """A queued push was discarded, failed, or took too long."""

    def __init__(self, operation_id: str, status: str, reason: str) -> None:
        super().__init__(f"operation {operation_id} is {status}: {reason}")
        self.operation_id = operation_id
        self.status = status


class BufferFailed(ClientError):
    """Buffered messages were not delivered. `items` has them in the form of a push."""

    def __init__(self, items: Sequence[Mapping[str, Any]], reason: str) -> None:
        super().__init__(
            f"{len(items)} buffered messages were not delivered ({reason}); "
            "`items` of this error has them, push them again"
        )
        self.items = list(items)
        self.reason = reason


class PayloadMismatch(ClientError):
    """A payload does not fit the given type."""

    def __init__(self, messages: Sequence[Any], reason: str) -> None:
        super().__init__(
            f"a payload does not fit the type: {reason}; "
            "`messages` of this error has all messages of the answer, ack them"
        )
        self.messages = list(messages)


class UnreadablePayload(ClientError, ValueError):
    """A payload is JSON that Python cannot represent, such as 1e400. `raw` has its bytes."""

    def __init__(self, raw: bytes, reason: str) -> None:
        super().__init__(
            f"the payload cannot be read ({reason}); `raw` of this error has its {len(raw)} bytes"
        )
        self.raw = raw
        self.reason = reason


class HandlerFailed(ClientError):
    """A handler with `auto_ack` off raised. `__cause__` is its error."""


class ClientClosed(ClientError):
    """The client was closed."""


_BY_STATUS: dict[int, type[RequestFailed]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: ResourceNotFound,
    409: ResourceConflict,
    429: ServerBusy,
    503: ServerBusy,
}
_BY_CODE: dict[str, type[RequestFailed]] = {"lease_lost": LeaseExpired}


def refusal(status: int, reason: str, where: str, code: str | None = None) -> RequestFailed:
    """Return the error for an answer with this status and code."""
    kind = _BY_STATUS.get(status, BadRequest if 400 <= status < 500 else RequestFailed)
    if code is None and status == 409 and reason.startswith("Lease"):
        # A broker of release 0.1 sends no codes.
        code = "lease_lost"
    return _BY_CODE.get(code or "", kind)(status, reason, where, code)
