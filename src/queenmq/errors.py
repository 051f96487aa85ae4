"""Every error the broker raises on purpose, and the codes by which the database names them.

    QueenError
    ├── SettingsError               a setting cannot be used; the start stops
    ├── InvalidRequest              the caller's mistake (400)
    │   ├── RequestTooLarge         a bound on size was passed (413)
    │   └── NotFound                the named thing does not exist (404)
    ├── LeaseLost                   the lease is not live any more (409)
    ├── TransactionRefused          a transaction was rolled back; its text says why
    ├── PartitionGone               a cached partition id was deleted meanwhile; look it up again
    ├── PartitionBusy               another transaction holds the partition; retry later (503)
    ├── StorageUnavailable          the database cannot be reached or did not answer (503)
    ├── StorageRejected             the database refused what it was given
    └── MigrationError              the schema cannot be brought up to date

A message is one sentence: the thing, its value, and what to do.
"""

from __future__ import annotations

#: SQLSTATEs raised by our own SQL functions; their meaning is in the code, never in the text.
PARTITION_GONE = "QN001"
QUEUE_FULL = "QN002"
ACK_REFUSED = "QN010"
LEASE_LOST = "QN011"
DUPLICATE_PUSH = "QN012"


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


class LeaseLost(QueenError):
    """The lease has expired, was completed, or never was."""


class TransactionRefused(QueenError):
    """A transaction was rolled back as a whole."""


class PartitionGone(QueenError):
    """A partition was deleted after its id was cached."""


class PartitionBusy(QueenError):
    """Another transaction holds the partition's row."""


class StorageUnavailable(QueenError):
    """The database cannot be reached, or broke off in the middle."""


class StorageRejected(QueenError):
    """The database refused the statement or its data."""


class MigrationError(QueenError):
    """The schema cannot be brought up to date."""
