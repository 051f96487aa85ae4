"""Every error the broker raises on purpose, and the codes by which the database names them.

    QueenError
    ├── SettingsError               a setting cannot be used; the start stops
    ├── InvalidRequest              the caller's mistake (400)
    │   ├── RequestTooLarge         a bound on size was passed (413)
    │   └── NotFound                the named thing does not exist (404)
    ├── Unauthenticated             no token, or one that is not good (401)
    ├── Forbidden                   the caller is known and may not do this (403)
    ├── LeaseLost                   the lease is not live any more (409)
    ├── Conflict                    the thing is in a state that does not allow it (409)
    ├── KeyReused                   an idempotency key was used for another request (422)
    ├── KeyKnown                    a push with an idempotency key was made before; look it up
    ├── TransactionRefused          a transaction was rolled back; its text says why
    ├── PartitionGone               a cached partition id was deleted meanwhile; look it up again
    │   └── EncryptionStale         its queue is encrypted now; look it up again, then encrypt
    ├── PartitionBusy               another transaction holds the partition; retry later (503)
    ├── StorageUnavailable          the database cannot be reached or did not answer (503)
    │   ├── StorageFault            it answers, but cannot do its part; no request is to blame (503)
    │   │   ├── EncryptionKeyMissing    a payload needs a key that this broker lacks (503)
    │   │   └── DecryptionFailed    a stored payload was changed or moved (503)
    │   ├── CallTimedOut            a call with a limit of its own was cancelled; it did nothing
    │   └── AccessRefused           the database is there and does not let us in; fix the URL or it
    ├── Overloaded                  too much waits already; nothing was done, retry later (429)
    │   ├── OperationQueueFull      too many operations wait in a partition
    │   └── SpoolFull               the spool on disk holds as much as it may
    ├── SpoolFailed                 the spool's disk did not take or give back a record (503)
    ├── ClaimLost                   another broker runs the operations now
    ├── StorageRejected             the database refused the data of a request (400)
    │   └── NotUnique               something with this name or id is there already
    ├── MigrationError              the schema cannot be brought up to date
    └── MoveError                   the database cannot be copied to that server

A message is one sentence: the thing, its value, and what to do. Where it may name hosts, roles,
tables or files it is for operators, and the error has a sentence for callers besides: `public`.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from uuid import UUID

#: SQLSTATEs raised by our own SQL functions; their meaning is in the code, never in the text.
PARTITION_GONE = "QN001"
QUEUE_FULL = "QN002"
OPERATION_QUEUE_FULL = "QN003"
CLAIM_LOST = "QN004"
ENCRYPTION_STALE = "QN005"
ACK_REFUSED = "QN010"
LEASE_LOST = "QN011"
DUPLICATE_PUSH = "QN012"
KEY_REUSED = "QN013"
KEY_KNOWN = "QN014"
STAGED_ROWS_LOST = "QN020"
BATCH_CHANGED = "QN021"
RELEASE_TOO_OLD = "QN030"


class QueenError(Exception):
    """Base of all errors raised on purpose."""


class SettingsError(QueenError):
    """A setting has a value that cannot be used."""


class InvalidRequest(QueenError):
    """The request cannot be carried out as it stands."""


class RequestTooLarge(InvalidRequest):
    """The request passes a bound on size."""


class NotFound(InvalidRequest):
    """The thing named in the request does not exist."""


class Unauthenticated(QueenError):
    """The request has no credential, or one that cannot be trusted."""


class Forbidden(QueenError):
    """The caller is known and may not do this."""


class LeaseLost(QueenError):
    """The lease has expired, was completed, or never was."""


class Conflict(QueenError):
    """The thing named in the request is in a state that does not allow it."""


class KeyReused(QueenError):
    """An idempotency key was used for a request with another body."""


class KeyKnown(QueenError):
    """A push of this call was made before, by its idempotency key. Nothing of the call is done."""


class TransactionRefused(QueenError):
    """A transaction was rolled back as a whole."""


class PartitionGone(QueenError):
    """A partition was deleted after its id was cached."""


class EncryptionStale(PartitionGone):
    """A queue is encrypted that was not when its partitions were cached."""


class PartitionBusy(QueenError):
    """Another transaction holds the partition's row."""


class StorageUnavailable(QueenError):
    """The database cannot be reached, or broke off in the middle. Its text is for operators."""

    def __init__(
        self,
        text: str,
        *,
        public: str | None = None,
        reason: str = "unavailable",
        is_in_doubt: bool = False,
        is_suspicious: bool = True,
    ) -> None:
        super().__init__(text)
        # No text of the driver reaches a caller because a caller forgot this argument.
        self.public = public or "the database cannot serve the request now; try again"
        #: One word for it: in `/health`, and in the log.
        self.reason = reason
        #: The call was sent, so it may have been carried out anyway.
        self.is_in_doubt = is_in_doubt
        #: Whether it may be the database as a whole.
        self.is_suspicious = is_suspicious

    def with_doubt(self, *, is_in_doubt: bool) -> StorageUnavailable:
        """Return the same error for a request that may have been carried out, or was not."""
        twin = copy.copy(self)
        twin.is_in_doubt = is_in_doubt
        return twin


class CallTimedOut(StorageUnavailable):
    """A call took longer than the limit it was given, below that of all calls, and was cancelled.

    It read only, so nothing was done. It says nothing about the database as a whole.
    """

    def __init__(self, limit_ms: int) -> None:
        super().__init__(
            f"the database took longer than {limit_ms} ms for a look-up; try again",
            public="the database is slow to search; try again",
            reason="slow",
            is_suspicious=False,
        )


class StorageFault(StorageUnavailable):
    """The database refuses its work for a reason that no request is to blame for.

    A missing privilege, function or table, for instance. A retry succeeds once it is fixed.
    """

    def __init__(self, text: str, *, code: str = "", is_suspicious: bool = False) -> None:
        shown = f" (SQLSTATE {code})" if code else ""
        super().__init__(
            text,
            public=f"the database has a fault{shown}, not your request; nothing was changed,"
            " try again. The server log has the details",
            reason="fault",
            is_suspicious=is_suspicious,
        )
        #: The SQLSTATE. Callers may see it; the text names roles and tables and is for the log.
        self.code = code


class EncryptionKeyMissing(StorageFault):
    """A payload is to be encrypted or decrypted with a key that this broker does not have."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        # It names queues and ids of keys. Callers have to know which operator to ask for what.
        self.public = text


class DecryptionFailed(StorageFault):
    """A stored payload was changed, or moved to another message."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.public = text


class AccessRefused(StorageUnavailable):
    """The database is there and refuses a new connection until an operator changes something."""


class Overloaded(QueenError):
    """Too much waits already. The request was not begun; it may be sent again after a while."""

    def __init__(
        self, text: str, *, depth: int = 0, retry_after_s: int = 1, bound: str = ""
    ) -> None:
        super().__init__(text)
        #: How many wait already.
        self.depth = depth
        self.retry_after_s = retry_after_s
        #: The bound that was reached: the name of its setting, where it has one.
        self.bound = bound


class OperationQueueFull(Overloaded):
    """Too many operations wait in these partitions, or in all, for another one to join them."""

    def __init__(
        self,
        text: str,
        *,
        partition_ids: Collection[UUID] = (),
        depth: int = 0,
        bound: str = "load_partition_queue_max",
    ) -> None:
        super().__init__(text, depth=depth, bound=bound)
        self.partition_ids = partition_ids


class SpoolFull(Overloaded):
    """The spool holds as much as it may; the database has to come back first."""

    def __init__(self, text: str, *, depth: int = 0) -> None:
        super().__init__(text, depth=depth, bound="spool_max_bytes")


class SpoolFailed(QueenError):
    """The spool could not be written or read; the text has the system's reason, for operators."""

    public = "the broker could not read or write its disk; try again"


class ClaimLost(QueenError):
    """Operations that this broker had claimed were taken over by another."""


class StorageRejected(QueenError):
    """The database refused the data. Whose data it is shows only in a call with one request.

    Its text is for operators: it may name constraints and tables.
    """

    def __init__(self, text: str, *, public: str | None = None) -> None:
        super().__init__(text)
        self.public = public or "the database refused the data of this request; change it"


class NotUnique(StorageRejected):
    """Something with this name or id is there already."""


class MigrationError(QueenError):
    """The schema cannot be brought up to date."""


class MoveError(QueenError):
    """The database cannot be copied to that server; nothing was kept there."""


def found_defect(what: str, error: Exception, *, is_in_doubt: bool = False) -> StorageUnavailable:
    """Return what callers get when something of ours breaks unexpectedly."""
    return StorageUnavailable(
        f"{what} broke: {error!r}",
        public="internal error; the server log has the details",
        is_in_doubt=is_in_doubt,
    )


def public_text(error: Exception) -> str:
    """Return the sentence for callers: that of the error, unless that is for operators."""
    public: str | None = getattr(error, "public", None)
    return str(error) if public is None else public


def is_confidential(error: Exception) -> bool:
    """Return whether the error says more than callers may read."""
    return public_text(error) != str(error)
