"""The database as the sink uses it: stage by COPY of Arrow batches, publish, discard."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

from queenmq.errors import (
    BATCH_CHANGED,
    ENCRYPTION_STALE,
    QUEUE_FULL,
    STAGED_ROWS_LOST,
    Conflict,
    StorageRejected,
    StorageUnavailable,
)
from queenmq.spark.database.connection import connect
from queenmq.spark.database.outages import insist
from queenmq.spark.database.sql_text import load
from queenmq.spark.sink.digests import changed_batch_hint

#: Tries of a publication that fails to get a lock. It happens once per batch, whatever earlier
#: tries did. The lock waits are the pauses between tries.
_TRIES = 3
#: The server is away, or about to be.
_AWAY = {"08", "53", "57"}
_REPEATED = "23505"
#: How the names of batch writes begin that the user has named.
NAMED = "write:"
#: How the names of writes inside foreachBatch begin.
FOREACH = "foreach:"
#: Not there: the schema, a table, a function.
_OUTDATED = {"3F000", "42P01", "42883", "42703"}
#: Classes of SQLSTATEs that speak of the moment, not of the statement.
_PASSING = {"08", "40", "53", "55", "57"}


Result = TypeVar("Result")


class DatabaseAway(StorageUnavailable):
    """The server does not answer, and may do so later."""


class Stage(NamedTuple):
    """The rows that one task has staged."""

    id: str
    rows: int


class Published(NamedTuple):
    """The result of a batch."""

    is_repeat: bool
    stored: int
    duplicates: int
    queued: int


class SinkStore:
    """One connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._sql = load("sink")

    def stage(self, batch: pa.RecordBatch, *, is_retry: bool = False) -> None:
        """Add rows to a stage; a retry may find them there.

        This is a separate transaction. A transaction as long as the task would hold back all
        readers that stop at the oldest open transaction.
        """
        with _translate_errors("rows could not be staged"), self._connection.cursor() as cursor:
            try:
                cursor.adbc_ingest("spark_staging", batch, mode="append", db_schema_name="queen")
            except adbc.Error as error:
                if not (is_retry and error.sqlstate == _REPEATED):
                    raise

    def find_encrypted(self, queues: Iterable[str]) -> set[str]:
        """Return which of these queues are encrypted."""
        with _translate_errors("queues could not be looked up"):
            (names,) = self._fetch("find_encrypted", json.dumps(sorted(queues)))
        return set(json.loads(names))

    def publish(
        self, query_id: str, batch_id: int, stages: Sequence[Stage], digest: int | None
    ) -> Published:
        """Make messages of the stages, once per query and batch."""
        ids = ",".join(stage.id for stage in stages)
        counts = ",".join(str(stage.rows) for stage in stages)
        self._fetch("make_partitions", query_id, batch_id, ids)
        row = self._fetch("publish_staged", query_id, batch_id, ids, counts, digest)
        return Published(*row)

    def discard(self, stages: Sequence[Stage]) -> None:
        """Remove the staged rows."""
        self._fetch("discard_staged", ",".join(stage.id for stage in stages))

    def shrink(self) -> None:
        """Give disk space back, if that can be done now. It can wait, and brokers do it too."""
        with contextlib.suppress(adbc.Error):
            self._fetch("shrink_staging")

    def apply_session_settings(self) -> None:
        """Apply the settings of the session."""
        self._fetch("settle_in")

    def _fetch(self, name: str, *arguments: Any) -> Any:
        with self._connection.cursor() as cursor:
            cursor.execute(str(self._sql[name]), arguments or None)
            return cursor.fetchone()


@contextmanager
def open_store(url: str) -> Iterator[SinkStore]:
    """Yield a connection for a while."""
    with _translate_errors("the database of option url cannot be used"):
        connection = connect(url)
    with connection:
        store = SinkStore(connection)
        with _translate_errors("the database of option url cannot be used"):
            store.apply_session_settings()
        yield store


class Stager:
    """Stages the rows of one task, over a new connection where the server was restarted."""

    def __init__(self, url: str, retry_s: float) -> None:
        self._url = url
        self._retry_s = retry_s
        self._open: contextlib.ExitStack | None = None
        self._store: SinkStore | None = None

    def __enter__(self) -> Stager:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def store(self) -> SinkStore:
        """Return the store.

        It opens with the first row, because most tasks of a small batch have none.
        """
        if self._store is None:
            self._open = contextlib.ExitStack()
            self._store = self._open.enter_context(open_store(self._url))
        return self._store

    def stage(self, batch: pa.RecordBatch) -> None:
        """Add rows to the stage of the task."""
        tries = 0

        def attempt() -> None:
            nonlocal tries
            tries += 1
            self.store.stage(batch, is_retry=tries > 1)

        self._insist(attempt)

    def find_encrypted(self, queues: Iterable[str]) -> set[str]:
        """Return which of these queues are encrypted."""
        return self._insist(lambda: self.store.find_encrypted(queues))

    def _insist(self, attempt: Callable[[], Result]) -> Result:
        # A database that never answered is not waited for.
        _ = self.store

        def attempt_or_close() -> Result:
            try:
                return attempt()
            except DatabaseAway:
                self._close()
                raise

        return insist(attempt_or_close, self._retry_s, on=DatabaseAway)

    def _close(self) -> None:
        if self._open is not None:
            with contextlib.suppress(adbc.Error):
                self._open.close()
        self._open = self._store = None


def publish(
    url: str,
    query_id: str,
    batch_id: int,
    stages: Sequence[Stage],
    digest: int | None = None,
    *,
    retry_s: float = 0,
) -> Published:
    """Publish a batch, with retries of temporary errors. `digest` None: not compared."""
    attempt = partial(_publish, url, query_id, batch_id, stages, digest)
    return insist(attempt, retry_s, on=DatabaseAway)


def _publish(
    url: str, query_id: str, batch_id: int, stages: Sequence[Stage], digest: int | None
) -> Published:
    hint = ""
    if query_id.startswith(NAMED):
        hint = "give this write a writeId of its own, or write the same rows again"
    elif query_id.startswith(FOREACH):
        hint = (
            f"give each write of a batch a name of its own; if it has one, {changed_batch_hint()}"
        )
    for left in reversed(range(_TRIES)):
        with _translate_errors("the batch was not published", hint):
            try:
                with open_store(url) as store:
                    published = store.publish(query_id, batch_id, stages, digest)
                    store.shrink()
                    return published
            except adbc.Error as error:
                if left == 0 or _is_away(error) or not _is_passing(error):
                    raise
    raise AssertionError("unreachable")


def _is_away(error: Any) -> bool:
    return not error.sqlstate or error.sqlstate[:2] in _AWAY


def _is_passing(error: Any) -> bool:
    if error.sqlstate:
        return error.sqlstate[:2] in _PASSING
    return isinstance(error, adbc.OperationalError)


@contextmanager
def _translate_errors(what: str, hint: str = "") -> Iterator[None]:
    try:
        yield
    except adbc.Error as error:
        _raise(what, error, hint)


def _raise(what: str, error: Any, hint: str) -> NoReturn:
    reason = _reason(error)
    if error.sqlstate == ENCRYPTION_STALE:
        hint = (
            "encryption was turned on while the batch was written; run it again, with the option"
            " encryptionKeys"
        )
        raise StorageRejected(f"{what}: {reason}; {hint}") from error
    if error.sqlstate == QUEUE_FULL:
        hint = "let its consumers catch up or raise its maxSize, then run the batch again"
        raise StorageRejected(f"{what}: {reason}; {hint}") from error
    if error.sqlstate == BATCH_CHANGED:
        raise Conflict(f"{what}: {reason}; {hint or changed_batch_hint()}") from error
    if error.sqlstate == STAGED_ROWS_LOST:
        hint = "the database was restarted meanwhile, or they are a day old; run the batch again"
        raise StorageUnavailable(f"{what}: {reason}; {hint}") from error
    if error.sqlstate in _OUTDATED or _misses_table(error):
        hint = "start a broker of this version on it once, which brings its schema up to date"
        raise StorageRejected(f"{what}: {reason}; {hint}") from error
    if _is_passing(error):
        kind = DatabaseAway if _is_away(error) else StorageUnavailable
        raise kind(f"{what}: {reason}") from error
    raise StorageRejected(f"{what}: {reason}") from error


def _misses_table(error: Any) -> bool:
    """Tell whether the driver itself misses a table, or one of its columns: without a SQLSTATE."""
    return not error.sqlstate and error.status_code.name in ("NOT_FOUND", "ALREADY_EXISTS")


def _reason(error: Any) -> str:
    """Return what PostgreSQL says, without the layers around it."""
    for key, value in error.details or ():
        if key in (b"PG_DIAG_MESSAGE_PRIMARY", "PG_DIAG_MESSAGE_PRIMARY"):
            return value.decode() if isinstance(value, bytes) else str(value)
    line = str(error).partition("\n")[0]
    for mark in ("ERROR:", "FATAL:", "Failed to connect:"):
        line = line.rpartition(mark)[2]
    return line.strip()
