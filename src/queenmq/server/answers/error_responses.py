"""Maps errors to statuses and codes, in one table. Every body has `error` and `code`."""

from __future__ import annotations

from typing import NamedTuple

from queenmq import errors, wire


class ErrorRow(NamedTuple):
    """The answer to one kind of error."""

    kind: type[errors.QueenError]
    status: int
    #: For programs. It never changes; docs/api.md lists it.
    code: str


#: Most specific first; the statuses 429 and 503 carry Retry-After.
ERRORS = (
    ErrorRow(errors.RequestTooLarge, 413, "too_large"),
    ErrorRow(errors.NotFound, 404, "not_found"),
    ErrorRow(errors.InvalidRequest, 400, "invalid_request"),
    ErrorRow(errors.Unauthenticated, 401, "unauthenticated"),
    ErrorRow(errors.Forbidden, 403, "forbidden"),
    ErrorRow(errors.LeaseLost, 409, "lease_lost"),
    ErrorRow(errors.Conflict, 409, "conflict"),
    ErrorRow(errors.KeyReused, 422, "idempotency_key_reused"),
    ErrorRow(errors.StorageRejected, 400, "data_rejected"),
    ErrorRow(errors.OperationQueueFull, 429, "operation_queue_full"),
    ErrorRow(errors.SpoolFull, 429, "spool_full"),
    ErrorRow(errors.Overloaded, 429, "overloaded"),
    ErrorRow(errors.PartitionBusy, 503, "partition_busy"),
    ErrorRow(errors.EncryptionKeyMissing, 503, "encryption_key_missing"),
    ErrorRow(errors.DecryptionFailed, 503, "decryption_failed"),
    ErrorRow(errors.StorageFault, 503, "database_fault"),
    ErrorRow(errors.StorageUnavailable, 503, "database_unavailable"),
    ErrorRow(errors.SpoolFailed, 503, "spool_failed"),
)
#: For errors that are not in the table.
NO_SUCH_ROUTE = "no_such_route"
METHOD_NOT_ALLOWED = "method_not_allowed"
_DEFECT = ErrorRow(errors.QueenError, 500, "internal_error")
DEFECT = wire.ErrorAnswer("internal error; the server log has the details", _DEFECT.code)
#: Seconds a client should wait when the database could not serve it.
_RETRY_AFTER_S = 1


def row_of(error: errors.QueenError) -> ErrorRow:
    """Return the answer to a request that failed with this error."""
    return next((row for row in ERRORS if isinstance(error, row.kind)), _DEFECT)


def status_of(error: errors.QueenError) -> int:
    """Return the status of an answer to a request that failed with this error."""
    return row_of(error).status


def retry_after_s(error: errors.QueenError) -> int | None:
    """Return the seconds before a retry, or None if a retry would not help."""
    if isinstance(error, errors.Overloaded):
        return error.retry_after_s
    return _RETRY_AFTER_S if status_of(error) == 503 else None


def body_of(error: errors.QueenError) -> wire.ErrorAnswer:
    """Return the body of the answer."""
    code = row_of(error).code
    if isinstance(error, errors.Overloaded):
        return wire.ErrorAnswer(str(error), code, error.depth, error.retry_after_s)
    # Some texts are only for the log, because they may name hosts, roles and tables.
    return wire.ErrorAnswer(errors.public_text(error), code)
