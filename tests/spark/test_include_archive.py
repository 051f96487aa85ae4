"""`includeArchive`: lake and live messages as one, each message once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from queenmq.errors import InvalidRequest, NotFound, StorageUnavailable
from queenmq.spark.source.archive import ArchiveSplit
from queenmq.spark.source.batch_reader import QueenBatchReader
from queenmq.spark.source.options import read_options
from tests.support.archive import run_archive
from tests.support.feed import Feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS, GONE, LATE = "lake-orders", "lake-gone.task", "lake-late"
Rows = Callable[..., Counter[Any]]


class Place(NamedTuple):
    """A database and a lake of it."""

    url: str
    path: str

    def options(self, **more: str) -> dict[str, str]:
        return {"url": self.url, "includeArchive": "true", "archivePath": self.path} | more

    def reader(self, **more: str) -> QueenBatchReader:
        return QueenBatchReader(read_options(self.options(**more), is_stream=False))


def _fill(spark: SparkSession, place: Place) -> None:
    """Messages 1 to 4 of partitions a and b of orders are archived, 1 and 2 of them removed; 5 and
    6 are new. Queue gone was archived and deleted; queue late is not archived.
    """
    with Feed(place.url) as feed:
        feed.push_all(ORDERS, ["a", "b"], times=4)
        feed.push(GONE, "x", transaction_id="tx", partition="a")
        run_archive(spark, place.url, place.path, queue=f"{ORDERS},{GONE}")
        feed.execute(
            "DELETE FROM queen.messages m USING queen.queues q"
            " WHERE q.id = m.queue_id AND q.name = $1 AND m.seq <= 2",
            ORDERS,
        )
        feed.execute("SELECT queen.delete_queue($1)", GONE)
        feed.push_all(ORDERS, ["a", "b"], times=2)
        feed.push(LATE, "y")


@pytest.fixture(scope="module")
def place(
    spark: SparkSession, shared_database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Place:
    """For tests that only read."""
    made = Place(shared_database_url, str(tmp_path_factory.mktemp("archive") / "la ke"))
    _fill(spark, made)
    return made


@pytest.fixture
def own_place(spark: SparkSession, database_url: str, tmp_path: Path) -> Place:
    """For those that change something."""
    made = Place(database_url, str(tmp_path / "lake"))
    _fill(spark, made)
    return made


def _rows(spark: SparkSession, place: Place, where: str | None, **options: str) -> Counter[Any]:
    """Queue, partition and seq of what a read gives, with how often it came."""
    options |= {} if where is None else {"where": where}
    frame = spark.read.format("queen").options(**place.options(**options)).load()
    return Counter(tuple(row) for row in frame.select("queue", "partition", "seq").collect())


@pytest.fixture
def rows(spark: SparkSession, place: Place) -> Rows:
    def collect(where: str | None = None, **options: str) -> Counter[Any]:
        return _rows(spark, place, where, **options)

    return collect


def orders(seqs: range, *names: str) -> Counter[Any]:
    return Counter((ORDERS, name, seq) for name in names or "ab" for seq in seqs)


PAST = Counter([(GONE, "a", 1)])


def test_every_message_comes_once_wherever_it_is(rows: Rows) -> None:
    assert rows(queue=ORDERS) == orders(range(1, 7))
    everything = rows(queuePattern="lake-.*")
    assert everything == orders(range(1, 7)) + PAST + Counter([(LATE, "Default", 1)])


def test_a_queue_that_was_deleted_is_read_from_the_lake(rows: Rows) -> None:
    assert rows(queue=f"{GONE},{ORDERS}") == orders(range(1, 7)) + PAST
    assert rows(namespace="lake-gone") == rows(namespace="lake-gone", task="task") == PAST
    assert rows(namespace="lake-gone", task="other") == rows(queuePattern="lake-gon") == Counter()


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("seq > 1", orders(range(2, 7))),
        ("seq BETWEEN 2 AND 5", orders(range(2, 6))),
        ("partition = 'b'", orders(range(1, 7), "b")),
        ("queue = 'other'", Counter()),
        (f"queue IN ('other', '{ORDERS}')", orders(range(1, 7))),
        ("created_at < timestamp '2001-01-01T00:00:00Z'", Counter()),
    ],
    ids=["from", "between", "partition", "no queue", "queue", "time"],
)
def test_filters_hold_on_both_sides(rows: Rows, where: str, wanted: Counter[Any]) -> None:
    assert rows(where, queue=ORDERS) == wanted


def test_a_partition_is_found_by_its_id_on_both_sides(rows: Rows, place: Place) -> None:
    with Feed(place.url) as feed:
        (row,) = feed.rows(
            "SELECT p.id::text FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id"
            " WHERE q.name = $1 AND p.name = 'a'",
            ORDERS,
        )
    assert rows(f"partition_id = '{row[0]}'", queue=ORDERS) == orders(range(1, 7), "a")


def test_options_hold_on_both_sides(rows: Rows, place: Place) -> None:
    with Feed(place.url) as feed:
        found = feed.rows(
            "SELECT m.seq, min(m.xid::text::bigint), min(m.created_at) FROM queen.messages m"
            " JOIN queen.queues q ON q.id = m.queue_id WHERE q.name = $1 GROUP BY m.seq",
            ORDERS,
        )
    xids = {row[0]: row[1] for row in found}
    times = {row[0]: row[2].isoformat() for row in found}
    begin, end = f'{{"xid": "{xids[4]}"}}', f'{{"xid": "{xids[6]}"}}'
    assert rows(queue=ORDERS, startingOffsets=begin) == orders(range(4, 7))
    assert rows(queue=ORDERS, endingOffsets=begin) == orders(range(1, 4))
    wanted = orders(range(4, 6), "a")
    assert rows(queue=ORDERS, startingOffsets=begin, endingOffsets=end, partitions="a,x") == wanted
    assert rows(queue=ORDERS, startingOffsets="latest") == Counter()
    bounds = {"startingTimestamp": times[4], "endingTimestamp": times[6]}
    assert rows(queue=ORDERS, **bounds) == orders(range(4, 6))


@pytest.mark.parametrize("kind", ["binary", "variant"])
def test_payloads_have_the_type_that_was_asked_for(
    spark: SparkSession, place: Place, kind: str
) -> None:
    options = place.options(queue=ORDERS, payloadType=kind, includeXid="true")
    frame = spark.read.format("queen").options(**options).load()
    assert dict(frame.dtypes)["payload"] == kind and dict(frame.dtypes)["xid"] == "bigint"
    found = frame.selectExpr("seq", "CAST(payload AS string)").distinct().collect()
    assert sorted(tuple(row) for row in found) == [
        (1, "0"),
        (2, "1"),
        (3, "2"),
        (4, "3"),
        (5, "0"),
        (6, "1"),
    ]


def test_payloads_that_do_not_fit_are_set_aside_on_both_sides(place: Place) -> None:
    reader = place.reader(queue=ORDERS, payloadSchema="n INT")
    rows = [
        row
        for task in reader.partitions()
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]
    assert len(rows) == 12
    assert {row["misfit"]["reason"] for row in rows if row["payload"] is None} == {
        f"payload is {number}, not an object" for number in range(4)
    }


def test_a_message_that_commits_late_is_not_left_out(
    spark: SparkSession, feed: Feed, own_place: Place
) -> None:
    held = feed.begin()
    held.push(ORDERS, partition="held")
    feed.push(ORDERS, partition="c")
    run_archive(spark, own_place.url, own_place.path)
    # Behind an open transaction, so not in the lake yet, nor to be read.
    assert _rows(spark, own_place, None, queue=ORDERS) == orders(range(1, 7))
    held.commit()
    late = Counter([(ORDERS, "held", 1), (ORDERS, "c", 1)])
    assert _rows(spark, own_place, None, queue=ORDERS) == orders(range(1, 7)) + late
    run_archive(spark, own_place.url, own_place.path)
    feed.execute("DELETE FROM queen.messages")
    assert _rows(spark, own_place, None, queue=ORDERS) == orders(range(1, 7)) + late


def test_a_queue_made_again_under_its_name_is_read_with_its_past(
    spark: SparkSession, feed: Feed, own_place: Place
) -> None:
    feed.push(GONE, partition="a")
    assert _rows(spark, own_place, None, queue=GONE) == PAST + PAST


def test_files_that_are_removed_meanwhile_are_one_sentence(own_place: Place) -> None:
    reader = own_place.reader(queue=ORDERS)
    split = next(task for task in reader.partitions() if isinstance(task, ArchiveSplit))
    for path in split.paths:
        (Path(own_place.path) / "messages" / path).unlink()
    with pytest.raises(StorageUnavailable, match="read again"):
        list(reader.read(split))


def test_files_that_hold_nothing_of_it_are_not_opened(place: Place) -> None:
    tasks = place.reader(queue=ORDERS).partitions()
    (split,) = [task for task in tasks if isinstance(task, ArchiveSplit)]
    assert split.paths and all(ORDERS in path for path in split.paths)
    begin = {"startingTimestamp": "2100-01-01T00:00:00Z", "queue": ORDERS}
    assert place.reader(**begin).partitions() == []


def test_a_queue_that_is_nowhere_and_a_lake_that_is_not_there_are_errors(place: Place) -> None:
    with pytest.raises(NotFound, match="no queue nope, neither live nor in the lake"):
        place.reader(queue="nope").partitions()
    with pytest.raises(NotFound, match="no lake"):
        place.reader(queue=ORDERS, archivePath=place.path + "/none").partitions()


@pytest.mark.parametrize(
    ("options", "is_stream", "word"),
    [
        ({"includeArchive": "true"}, False, "archivePath"),
        ({"archivePath": "x"}, False, "includeArchive to be true"),
        ({"includeArchive": "perhaps", "archivePath": "x"}, False, "includeArchive must be"),
        ({"includeArchive": "true", "archivePath": "x"}, True, "batch reads"),
        (
            {"includeArchive": "true", "archivePath": "x", "deliveryState": "true"},
            False,
            "deliveryState",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: dict[str, str], is_stream: bool, word: str
) -> None:
    given = {"url": "postgresql://nobody@localhost/none", "queue": "q"} | options
    with pytest.raises(InvalidRequest, match=word):
        read_options(given, is_stream=is_stream)
