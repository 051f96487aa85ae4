"""The tables of a lake beside other writers, and their upkeep; by delta-rs alone."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

pytest.importorskip("deltalake", reason="needs the spark extra")

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from queenmq.errors import Conflict, NotFound, StorageRejected
from queenmq.spark.lake import upkeep
from queenmq.spark.lake.layout import Lake
from queenmq.spark.lake.table import MessageTable, Origin, open_or_create, open_table
from queenmq.spark.lake.tally import Tally
from queenmq.spark.lake.verification import differences, notes
from tests.support.small_lake import DAY, NOON, QUEUE, add_entry, make_message, write_file

OTHER = UUID(int=2)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = Lake.at(str(tmp_path / "la ke"))
    open_or_create(found)
    return found


def _seqs(lake: Lake) -> list[int]:
    rows = DeltaTable(lake.messages).to_pyarrow_table(columns=["seq"])
    return sorted(rows["seq"].to_pylist())


def test_an_archive_goes_on_beside_an_optimization_and_not_beside_its_double(lake: Lake) -> None:
    first = open_table(lake).commit([write_file(lake, 1)], positions={QUEUE: 10})
    table = first.commit([write_file(lake, 2)], positions={QUEUE: 20}, origin=Origin(7, 1))
    upkeep.optimize(lake)
    assert len(open_table(lake).files()) == 1
    done = table.commit([write_file(lake, 3)], positions={QUEUE: 30}, origin=Origin(7, 2))
    assert _seqs(lake) == [1, 2, 3] and done.position(QUEUE) == 30
    with pytest.raises(Conflict, match="wrote to the lake"):
        table.commit([write_file(lake, 4)], positions={QUEUE: 40})
    assert _seqs(lake) == [1, 2, 3], "another archive of the same queue had been there"
    table.commit([write_file(lake, 5)], positions={OTHER: 50})
    assert _seqs(lake) == [1, 2, 3, 5]


def test_a_file_of_which_the_log_says_nothing_is_read(lake: Lake) -> None:
    (file,) = open_table(lake).commit([replace(write_file(lake, 1, 2), stats=None)]).files()
    assert file.messages is None and file.may_have(5, None, "seq")
    assert _seqs(lake) == [1, 2]


def test_files_are_replaced_once_however_many_try(lake: Lake) -> None:
    table = open_table(lake).commit([write_file(lake, 1), write_file(lake, 2)])
    old = table.files()
    table.commit([write_file(lake, 3)])
    new = table.replace(old, [write_file(lake, 11, 12)])
    assert _seqs(lake) == [3, 11, 12], "what came meanwhile is no hindrance"
    with pytest.raises(Conflict, match="another writer has changed files"):
        table.replace(old, [write_file(lake, 21, 22)])
    upkeep.optimize(lake, z_order=True)
    with pytest.raises(Conflict, match="another writer has changed files"):
        new.replace(new.files(), [write_file(lake, 31)])
    assert _seqs(lake) == [3, 11, 12]


def test_vacuum_keeps_what_a_reader_or_a_running_job_needs(lake: Lake) -> None:
    table = open_table(lake).commit([write_file(lake, 1)]).commit([write_file(lake, 2)])
    old = [Path(lake.messages, file.path) for file in table.files()]
    upkeep.optimize(lake)
    for path in old:
        _age(path, hours=1000)
    young, stray = write_file(lake, 3), write_file(lake, 4)
    _age(Path(lake.messages, stray.path), hours=25)
    summary = upkeep.vacuum(lake, 168)
    assert summary.figures["files removed"] == 0, "both are younger than a week"
    assert upkeep.vacuum(lake, 1, is_dry=True).figures["files to remove"] == 1
    assert Path(lake.messages, stray.path).exists()
    assert upkeep.vacuum(lake, 1).figures["files removed"] == 1
    assert not Path(lake.messages, stray.path).exists()
    assert Path(lake.messages, young.path).exists(), "a job may be about to commit it"
    assert all(path.exists() for path in old), "a reader of the last hour may need them"
    open_table(lake).vacuum(0)
    assert not any(path.exists() for path in old) and Path(lake.messages, young.path).exists()
    assert _seqs(lake) == [1, 2]
    empty = Path(lake.messages, stray.path).parent
    _age(empty, hours=25)
    open_table(lake).vacuum(0)
    assert not empty.exists() and Path(lake.messages, young.path).parent.exists()


def _age(path: Path, *, hours: int) -> None:
    then = time.time() - hours * 3600
    os.utime(path, (then, then))


def test_versions_of_before_can_be_read(lake: Lake) -> None:
    first = open_table(lake).commit([write_file(lake, 1)])
    moment = datetime.now(UTC)
    first.commit([write_file(lake, 2)])
    assert [len(open_table(lake, version).files()) for version in (0, 1, 2, None)] == [0, 1, 2, 2]
    assert len(open_table(lake, moment + timedelta(days=1)).files()) == 2
    assert upkeep.describe(lake, 1).figures["messages"] == 1
    told = upkeep.describe(lake)
    assert told.tables["queues"].rows[0][:3] == ("a b", 1, "2026-01-31")
    assert [row[0] for row in told.tables["versions"].rows] == [2, 1, 0]


def test_verify_tells_missing_changed_added_and_lost_apart(lake: Lake) -> None:
    open_table(lake).commit([write_file(lake, 1)])
    assert upkeep.verify(lake).figures["messages that wait to be verified"] == 1
    text = f"id-p/1/m1/t1//{int(NOON.timestamp())}000000//0/{{}}"
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    add_entry(lake, 1, checksum=int(digest[:15], 16))
    assert upkeep.verify(lake).is_ok, "the checksum is that of the archive"
    delta = DeltaTable(lake.messages)
    for what, statement in (
        ("changed", lambda: delta.update({"payload": "'[]'"})),
        ("missing", lambda: delta.delete("seq = 1")),
    ):
        statement()
        told = upkeep.verify(lake)
        assert not told.is_ok and told.tables["differences"].rows[0][-1] == what
    doubled = pa.Table.from_pylist(
        [{**make_message(1), "queue": "a b", "day": DAY}] * 2,
        pa.schema(DeltaTable(lake.messages).schema()),
    )
    write_deltalake(lake.messages, doubled, mode="append")
    assert upkeep.verify(lake).tables["differences"].rows == [
        ("a b", "p", 1, 2, "more than verified")
    ]
    Path(lake.messages, open_table(lake).files()[0].path).unlink()
    assert upkeep.verify(lake).figures["files that are missing"] == 1


def test_an_entry_that_is_there_twice_counts_once() -> None:
    row = {"queue": "q", "partition": "p", "partition_id": "i", "end_xid": 9}
    row |= {"messages": 2, "first_seq": 1, "last_seq": 2, "checksum": 5}
    more = row | {"first_seq": 3, "last_seq": 3, "messages": 1, "end_xid": 12}
    noted = notes([row, row | {"end_xid": 10}, more])
    assert noted["i"].tally == Tally(3, 1, 3, 10) and noted["i"].end_xid == 12
    assert list(differences(noted, {"i": Tally(3, 1, 3, 10)})) == []


def test_what_cannot_be_read_is_refused(tmp_path: Path, lake: Lake) -> None:
    with pytest.raises(NotFound, match="there is no lake"):
        upkeep.describe(Lake.at(str(tmp_path / "nothing")))
    delta = DeltaTable(lake.messages)
    delta.alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    with pytest.raises(StorageRejected, match="uses deletionVectors, which another writer"):
        open_table(lake)


def test_rows_without_a_queue_are_refused(lake: Lake) -> None:
    row = {**make_message(1), "queue": None, "day": DAY}
    rows = pa.Table.from_pylist([row], pa.schema(DeltaTable(lake.messages).schema()))
    write_deltalake(lake.messages, rows, mode="append")
    with pytest.raises(StorageRejected, match="without a queue"):
        MessageTable(lake, DeltaTable(lake.messages)).files()
