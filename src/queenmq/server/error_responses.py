"""One table: which error becomes which status. The body is always `{"error": sentence}`."""

from __future__ import annotations

from queenmq import errors

#: Most specific first; a status of 503 carries Retry-After.
STATUS: tuple[tuple[type[errors.QueenError], int], ...] = (
    (errors.RequestTooLarge, 413),
    (errors.NotFound, 404),
    (errors.InvalidRequest, 400),
    (errors.LeaseLost, 409),
    (errors.StorageRejected, 400),
    (errors.PartitionBusy, 503),
    (errors.StorageUnavailable, 503),
)
#: Seconds a client should wait before it tries again.
RETRY_AFTER = "1"


def status_of(error: errors.QueenError) -> int:
    """The status of an answer to a request that failed with this error."""
    for kind, status in STATUS:
        if isinstance(error, kind):
            return status
    return 500
