"""The Delta table of messages, through delta-rs: its files, its positions, and its commits.

Others may write to it at the same time. A commit that adds files is repeated on top of what they
did, unless it moved the same positions: so a writer that does not know of another one cannot add
anything twice. A commit that replaces files is repeated only while all of them are still there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow as pa
from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from queenmq.clock import unix_ms
from queenmq.errors import Conflict, NotFound, StorageRejected, StorageUnavailable
from queenmq.spark.lake.layout import COLUMNS, PARTITIONED_BY, DataFile, Lake, app_id
from queenmq.spark.lake.stores.urls import explain
from queenmq.spark.lake.vacuuming import remove_empty_folders, vacuum
from queenmq.spark.sink.digests import digest_texts

#: How often a commit is repeated on top of those of others.
_RETRIES = 15
#: What a table may ask of its readers: what concerns the log, which delta-rs reads, and types that
#: our columns do not have.
_READER_FEATURES = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "variantType"})
_EPOCH = datetime.fromtimestamp(0, UTC)
#: Keys of the log for the database of these messages, and for the last mark written there.
_DATABASE = "queen-archive/database"
_MARK = "queen-archive/mark"


@dataclass(frozen=True)
class Origin:
    """The database of a lake's messages: its name as a number, and the mark noted there last."""

    database: int
    mark: int

    @classmethod
    def of(cls, database: str, mark: int) -> Origin:
        """Read the origin as the database names itself."""
        return cls(number_of(database), mark)


def number_of(database: str) -> int:
    """Return the name of a database as Delta's log can keep it."""
    return digest_texts([database.encode()])


class MessageTable:
    """The table as it was at one version."""

    def __init__(self, lake: Lake, delta: DeltaTable) -> None:
        self.lake = lake
        self._delta = delta

    @property
    def id(self) -> UUID:
        """Return the id, which stays the same when the lake is moved."""
        return UUID(str(self._delta.metadata().id))

    @property
    def version(self) -> int:
        """Return the version, which grows by one with each commit."""
        found: int = self._delta.version()
        return found

    def files(self) -> list[DataFile]:
        """Return all files of this version."""
        rows = pa.table(self._delta.get_add_actions(flatten=True)).to_pylist()
        if any(row["partition.queue"] is None or row["partition.day"] is None for row in rows):
            raise StorageRejected(
                f"the lake at {self.lake.location} has rows without a queue or a day, which another"
                " writer has added; delete them"
            )
        return [_data_file(row) for row in rows]

    def missing_files(self) -> list[str]:
        """Return files of this version that are not where they should be."""
        found: list[str] = self._delta.repair(dry_run=True)["files_removed"]
        return sorted(map(unquote, found))

    def history(self, limit: int) -> list[dict[str, Any]]:
        """Return the last commits, newest first: `version`, `time` and `operation`."""
        return [
            {
                "version": entry["version"],
                "time": datetime.fromtimestamp(entry["timestamp"] / 1000, UTC).isoformat(),
                "operation": entry.get("operation", "unknown"),
            }
            for entry in self._delta.history(limit)
        ]

    def position(self, queue_id: UUID) -> int:
        """Return the position: the queue's messages of all transactions below it are in this
        version.
        """
        return self._delta.transaction_version(app_id(queue_id)) or 0

    @property
    def reader(self) -> str:
        """Return the name under which this lake writes its mark. See history.py."""
        return f"lake:{self.id}"

    @property
    def origin(self) -> Origin | None:
        """Return where the messages come from, or None if that was never noted."""
        database = self._delta.transaction_version(_DATABASE)
        mark = self._delta.transaction_version(_MARK)
        return None if database is None or mark is None else Origin(database, mark)

    def commit(
        self,
        added: Sequence[DataFile],
        *,
        positions: Mapping[UUID, int] | None = None,
        origin: Origin | None = None,
    ) -> MessageTable:
        """Add files and move positions, all at once; the table as it is then."""
        notes = transactions(positions or {})
        if origin is not None:
            notes += [Transaction(_DATABASE, origin.database), Transaction(_MARK, origin.mark)]
        self._write(
            [_addition(file, is_change=True) for file in added],
            CommitProperties(app_transactions=notes, max_commit_retries=_RETRIES),
        )
        return open_table(self.lake)

    def replace(self, removed: Sequence[DataFile], added: Sequence[DataFile]) -> MessageTable:
        """Put files in the place of others that hold the same rows; the log says so."""
        actions: list[AddAction | RemoveAction] = [
            *(_addition(file, is_change=False) for file in added),
            *map(_removal, removed),
        ]
        # delta-rs would not notice that another writer has replaced the same files.
        once = CommitProperties(max_commit_retries=0)
        table = self
        for _ in range(_RETRIES):
            with contextlib.suppress(Conflict):
                table._write(actions, once)
                return open_table(self.lake)
            table = open_table(self.lake)
            if not {file.path for file in removed} <= {file.path for file in table.files()}:
                break
        raise Conflict(
            f"another writer has changed files of the lake at {self.lake.location} that were to be"
            " replaced, so they were left alone; run the job again"
        )

    def _write(
        self, actions: Sequence[AddAction | RemoveAction], properties: CommitProperties
    ) -> None:
        with delta_errors(self.lake, "written"):
            self._delta.create_write_transaction(
                list(actions),
                "append",
                self._delta.schema(),
                partition_by=list(PARTITIONED_BY),
                commit_properties=properties,
            )

    def vacuum(self, hours: int, *, is_dry: bool = False) -> int:
        """Delete files that no version of the last hours refers to. Return how many."""
        with delta_errors(self.lake, "cleaned up"):
            found = vacuum(self._delta, hours, is_dry=is_dry)
        if self.lake.is_local and not is_dry:
            remove_empty_folders(self.lake.messages)
        return found


def transactions(positions: Mapping[UUID, int]) -> list[Transaction]:
    """Return positions in the form of Delta's log."""
    return [Transaction(app_id(queue), xid) for queue, xid in positions.items()]


def open_table(lake: Lake, version: int | datetime | None = None) -> MessageTable:
    """Return the newest version, or one of before."""
    with delta_errors(lake, "read"):
        try:
            delta = DeltaTable(lake.messages)
            _check_features(lake, delta)
            if version is not None:
                delta.load_as_version(version)
            return MessageTable(lake, delta)
        except TableNotFoundError:
            raise NotFound(
                f"there is no lake at {lake.location}; make one with `queen pipeline archive`"
            ) from None


def _check_features(lake: Lake, delta: DeltaTable) -> None:
    """Refuse a table that has to be read in a way that we cannot."""
    unknown = sorted(set(delta.protocol().reader_features or ()) - _READER_FEATURES)
    if unknown or delta.protocol().min_reader_version == 2:
        names = ", ".join(unknown) or "columnMapping"
        raise StorageRejected(
            f"the lake at {lake.location} uses {names}, which another writer has switched on and"
            " this version cannot read; rewrite the table without it"
        )


def find_table(lake: Lake) -> MessageTable | None:
    """Return the newest version, if there is a lake."""
    try:
        return open_table(lake)
    except NotFound:
        return None


def open_or_create(lake: Lake) -> MessageTable:
    """Return the newest version, which may be the first."""
    schema = Schema([Field(name, PrimitiveType(kind)) for name, kind in COLUMNS])
    create_table(lake, lake.messages, schema, PARTITIONED_BY)
    return open_table(lake)


def create_table(lake: Lake, path: str, schema: Schema, partition_by: Sequence[str] = ()) -> None:
    """Make a table, unless it is there."""
    with delta_errors(lake, "made"):
        if DeltaTable.is_deltatable(path):
            return
        if lake.is_local:
            os.makedirs(path, exist_ok=True)
        with contextlib.suppress(CommitFailedError):  # another process made it just now
            DeltaTable.create(path, schema, partition_by=list(partition_by), mode="ignore")


@contextlib.contextmanager
def delta_errors(lake: Lake, what: str) -> Iterator[None]:
    """Turn errors of delta-rs into one sentence."""
    try:
        yield
    except CommitFailedError as error:
        raise Conflict(
            f"another process wrote to the lake at {lake.location} meanwhile, so nothing was added;"
            " run the job again"
        ) from error
    except (DeltaError, OSError, ValueError) as error:
        raise StorageUnavailable(
            f"the lake at {lake.location} cannot be {what}: {explain(lake.location, str(error))}"
        ) from error


def _addition(file: DataFile, *, is_change: bool) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.bytes,
        partition_values=file.partition_values,
        modification_time=file.modified_ms,
        data_change=is_change,
        stats=file.stats or "{}",
    )


def _removal(file: DataFile) -> RemoveAction:
    return RemoveAction(file.path, False, unix_ms(), file.bytes, file.partition_values)


def _data_file(row: Mapping[str, Any]) -> DataFile:
    return DataFile(
        # The log has it encoded as in a URL.
        path=unquote(row["path"]),
        bytes=row["size_bytes"],
        queue=row["partition.queue"],
        day=row["partition.day"],
        messages=row.get("num_records"),
        first_xid=row.get("min.xid"),
        last_xid=row.get("max.xid"),
        first_seq=row.get("min.seq"),
        last_seq=row.get("max.seq"),
        first_time=row.get("min.created_at"),
        last_time=row.get("max.created_at"),
        modified_ms=_milliseconds(row["modification_time"]),
    )


def _milliseconds(value: int | datetime) -> int:
    if isinstance(value, int):
        return value
    return int((value - _EPOCH).total_seconds() * 1000)
