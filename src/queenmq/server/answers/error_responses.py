"""One table: which error becomes which status. Every body has `{"error": sentence}`."""

from __future__ import annotations

from typing import Any

from queenmq import errors

#: Most specific first; the statuses 429 and 503 carry Retry-After.
STATUS: tuple[tuple[type[errors.QueenError], int], ...] = (
    (errors.RequestTooLarge, 413),
    (errors.NotFound, 404),
    (errors.InvalidRequest, 400),
    (errors.LeaseLost, 409),
    (errors.Conflict, 409),
    (errors.StorageRejected, 400),
    (errors.Overloaded, 429),
    (errors.PartitionBusy, 503),
    (errors.StorageUnavailable, 503),
    (errors.SpoolFailed, 503),
)
#: Seconds a client should wait when the database could not serve it.
_RETRY_AFTER_S = 1


def status_of(error: errors.QueenError) -> int:
    """The status of an answer to a request that failed with this error."""
    for kind, status in STATUS:
        if isinstance(error, kind):
            return status
    return 500


def retry_after_s(error: errors.QueenError) -> int | None:
    """Seconds after which the caller should try again; None when that would not help."""
    if isinstance(error, errors.Overloaded):
        return error.retry_after_s
    return _RETRY_AFTER_S if status_of(error) == 503 else None


def body_of(error: errors.QueenError) -> dict[str, Any]:
    """The body of the answer."""
    if isinstance(error, errors.Overloaded):
        return {"error": str(error), "depth": error.depth, "retryAfter": error.retry_after_s}
    if isinstance(error, errors.StorageUnavailable):
        # The text is for the log: it may name hosts, roles and tables.
        return {"error": error.public}
    return {"error": str(error)}
