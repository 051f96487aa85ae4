"""An archive that is killed, disturbed, damaged or has no room: nothing is twice, lost, or marked
without being safe.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from queenmq.errors import Conflict, StorageRejected, StorageUnavailable
from queenmq.spark.jobs.job import Summary
from queenmq.spark.lake import Lake
from queenmq.spark.lake.manifest import read_manifest
from queenmq.spark.lake.table import open_or_create, open_table
from tests.support.archive import (
    ArchiveProcess,
    archived,
    live,
    marks,
    produce,
    produce_over_http,
    run_archive,
)
from tests.support.broker import BrokerProcess
from tests.support.feed import Feed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

Archive = Callable[..., Summary]
Row = dict[str, Any]

_LAST = """
SELECT q.name, p.name, max(m.seq) FROM queen.messages m
JOIN queen.partitions p ON p.id = m.partition_id JOIN queen.queues q ON q.id = m.queue_id
GROUP BY 1, 2
"""


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@pytest.fixture
def archive(spark: SparkSession, database_url: str, lake: str) -> Archive:
    return partial(run_archive, spark, database_url, lake)


def _grown(path: Path, pattern: str) -> Callable[[], int]:
    return lambda: len(list(path.glob(pattern)))


def _moments(feed: Feed, lake: str) -> dict[str, Callable[[], int]]:
    """A driver is killed as soon as one of these numbers has grown."""
    place = Path(lake)

    def noted() -> int:
        marked = "SELECT coalesce(sum(archived_seq), 0) FROM queen.archive_marks"
        return int(feed.rows(marked)[0][0])

    def begun() -> int:
        positions = "SELECT coalesce(max(xid::text::bigint), 0) FROM queen.archive_positions"
        return int(feed.rows(positions)[0][0])

    return {
        "a batch is begun or done": begun,
        "files are being written": _grown(place, "messages/data-*/_temporary/0/*"),
        "files are written": _grown(place, "messages/data-*/_SUCCESS"),
        "a batch is committed": _grown(place, "messages/_delta_log/*.json"),
        "a batch is in the manifest": _grown(place, "manifest/_delta_log/*.json"),
        "partitions are marked": noted,
    }


def _kill_when(moment: str, look: Callable[[], int], driver: ArchiveProcess) -> None:
    driver.begin()
    before = look()
    wait_until(lambda: look() > before or driver.is_done(), timeout_s=180, what=moment)
    assert not driver.is_done(), driver.log.read_text()[-3000:]
    driver.kill()


@pytest.mark.jobs
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_archive_that_is_killed_again_and_again_holds_every_message_once(
    spark: SparkSession,
    database_url: str,
    feed: Feed,
    archive: Archive,
    lake: str,
    tmp_path: Path,
    start_broker: Callable[..., BrokerProcess],
) -> None:
    stop = threading.Event()
    urls = [start_broker().url, start_broker().url]
    producers = [feed.start(produce(database_url, seed, stop)) for seed in range(3)]
    over_http = feed.start(produce_over_http(urls, "http", stop))
    moments = _moments(feed, lake)
    start = partial(ArchiveProcess, database_url, lake, tmp_path / "log")
    processes = [start()]
    try:
        for moment in random.sample(list(moments), 5):
            # The next one starts while this one works.
            processes.append(start())
            _kill_when(moment, moments[moment], processes[-2])
    finally:
        for driver in processes:
            driver.kill()
        stop.set()
        for producer in producers:
            producer.result(60)
        answered = over_http.result(60)
    commits = len(list(Path(lake, "messages/_delta_log").glob("*.json")))
    summary = archive()
    assert summary.is_ok
    assert commits > 1 and summary.figures["messages archived"] > 0, "they were killed on the way"
    assert archived(spark, lake) == live(feed)
    last = {(row[0], row[1]): row[2] for row in feed.rows(_LAST)}
    assert marks(feed) == last
    counted: Counter[tuple[str, str]] = Counter()
    for row in read_manifest(spark, Lake.at(lake)).collect():
        counted[row.queue, row.partition] += row.messages
    assert counted == last, "each message stands in the manifest once"
    assert sum(n for (queue, _), n in counted.items() if queue == "http") == answered


def _rewrite(lake: str, change: Callable[[list[Row]], list[Row]]) -> None:
    """Change rows in the one file of a lake, where nobody looks."""
    (file,) = open_table(Lake.at(lake)).files()
    path = Path(lake, "messages", file.path)
    names = [name for name in pq.read_schema(path).names if name != "payload_variant"]
    table = pq.read_table(path, columns=names, partitioning=None)
    rows = change(table.to_pylist())
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    path.with_name(f".{path.name}.crc").unlink()


def test_a_file_that_was_changed_is_found_and_nothing_is_marked(
    spark: SparkSession, feed: Feed, archive: Archive, lake: str
) -> None:
    feed.push_all("orders", ["changed", "missing", "repeated", "right"], times=3)
    archive()

    def damage(rows: list[Row]) -> list[Row]:
        found = {(row["partition"], row["seq"]): row for row in rows}
        found["changed", 2]["payload"] = '"other"'
        del found["missing", 3]
        return [*found.values(), found["repeated", 1]]

    _rewrite(lake, damage)
    # As after a run that was killed before it verified.
    feed.execute("DELETE FROM queen.archive_positions")
    feed.execute("DELETE FROM queen.archive_marks")
    feed.push("orders", 4, partition="right")
    summary = archive()
    assert not summary.is_ok
    assert summary.tables["findings"].rows == [
        ("orders", "changed", 0, 1, 0),
        ("orders", "missing", 1, 0, 0),
        ("orders", "repeated", 0, 0, 1),
    ]
    assert marks(feed) == {}
    assert summary.figures["messages archived"] == 0, "it stops there"


def test_a_file_that_is_gone_is_an_error(feed: Feed, archive: Archive, lake: str) -> None:
    feed.push("orders", 1)
    archive()
    (file,) = open_table(Lake.at(lake)).files()
    Path(lake, "messages", file.path).unlink()
    feed.execute("DELETE FROM queen.archive_positions")
    with pytest.raises(StorageUnavailable, match=r"the lake at .* cannot be read: .*not exist"):
        archive()


def test_a_second_writer_is_refused(feed: Feed, archive: Archive, lake: str) -> None:
    feed.push("orders", 1)
    table = open_or_create(Lake.at(lake))
    key = "hashtextextended('queen archive ' || $1::text, 0)"
    feed.execute(f"SELECT pg_advisory_lock({key})", str(table.id))
    with pytest.raises(Conflict, match="another archive job"):
        archive()
    feed.execute(f"SELECT pg_advisory_unlock({key})", str(table.id))
    assert archive().figures["messages archived"] == 1
    # One that knows nothing of locks, such as that of a database behind a connection pooler.
    ((queue_id,),) = feed.rows("SELECT id FROM queen.queues")
    with pytest.raises(Conflict, match="another process wrote to the lake"):
        table.commit([], positions={queue_id: 10**12})


def test_a_lake_that_is_ahead_of_its_database_is_refused(
    feed: Feed, archive: Archive, lake: str
) -> None:
    feed.push("orders", 1)
    ((queue_id,),) = feed.rows("SELECT id FROM queen.queues")
    open_or_create(Lake.at(lake)).commit([], positions={queue_id: 10**12})
    with pytest.raises(StorageRejected, match="restored from a backup; begin a new lake"):
        archive()


def test_two_runs_at_once_archive_everything_once(
    spark: SparkSession, feed: Feed, archive: Archive, lake: str
) -> None:
    feed.push_all("orders", ["a", "b"], times=6)
    outcomes: list[object] = []

    def run() -> None:
        try:
            outcomes.append(archive(max_messages=4).figures["messages archived"])
        except Conflict as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 12 in outcomes
    assert archived(spark, lake) == live(feed)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for next to nothing."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a small disk needs mount, and root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_told_and_nothing_is_half_done(
    spark: SparkSession, database_url: str, feed: Feed, small_disk: Path
) -> None:
    noise = random.Random(1)
    for number in range(40):
        feed.push("orders", noise.randbytes(4_000).hex(), partition=f"p{number % 4}")
    with pytest.raises(StorageUnavailable, match="No space left on device"):
        run_archive(spark, database_url, str(small_disk))
    assert marks(feed) == {}
    assert open_table(Lake.at(str(small_disk))).files() == []


def test_a_place_that_cannot_be_a_lake_is_told(
    spark: SparkSession, database_url: str, feed: Feed, tmp_path: Path
) -> None:
    feed.push("orders", 1)
    tmp_path.joinpath("file").write_text("no folder")
    with pytest.raises(StorageUnavailable, match=r"cannot be made: .*Not a directory"):
        run_archive(spark, database_url, str(tmp_path / "file" / "lake"))
    assert marks(feed) == {}
