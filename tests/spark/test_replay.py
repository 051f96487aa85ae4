"""`queen pipeline replay`: archived messages to queues again, in order, once; what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from queenmq.cli import main
from queenmq.errors import InvalidRequest, NotFound
from queenmq.spark.jobs import bulk
from queenmq.spark.jobs.job import Silent, Summary
from queenmq.spark.jobs.replay.job import Replay
from queenmq.spark.jobs.replay.options import ReplayOptions
from queenmq.spark.lake import Lake
from tests.support.archive import run_archive
from tests.support.feed import Feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Replayer = Callable[..., Summary]
_PLAIN: dict[str, Any] = {
    "queues": (),
    "partitions": (),
    "since": None,
    "until": None,
    "where": None,
    "target_queue": None,
    "partition_expression": None,
    "has_fresh_ids": False,
    "rate": None,
    "batch_rows": 100_000,
    "name": "",
}
#: Of the messages in the lake: n minutes after this.
BEGIN = datetime(2024, 2, 29, 23, 55, tzinfo=UTC)


@pytest.fixture(scope="module")
def lake(
    spark: SparkSession, shared_database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """A lake with ten messages of orders, in partitions a and b in turn, a minute apart and over
    midnight, one of another queue, and one that is encrypted. Tests replay it to databases of their
    own, which know nothing of it.
    """
    place = str(tmp_path_factory.mktemp("replay") / "lake")
    with Feed(shared_database_url) as feed:
        for n in range(10):
            feed.push("orders", {"n": n}, partition="ab"[n % 2], transaction_id=f"t{n}")
        feed.push("other", "x", transaction_id="t0")
        feed.push("secret", "x", transaction_id="t0")
        names = ["orders", "other", "secret"]
        feed.execute(
            "UPDATE queen.messages m SET is_encrypted = q.name = 'secret', created_at ="
            " $1::timestamptz + make_interval(mins => substr(transaction_id, 2)::int)"
            " FROM queen.queues q WHERE q.id = m.queue_id AND q.name = ANY ($2)",
            BEGIN,
            names,
        )
        run_archive(spark, shared_database_url, place, queue=",".join(names))
        for name in names:
            feed.execute("SELECT queen.delete_queue($1)", name)
    return place


@pytest.fixture
def make(database_url: str, lake: str) -> Callable[..., Replay]:
    def job(**options: Any) -> Replay:
        return Replay(ReplayOptions(url=database_url, lake=Lake.at(lake), **(_PLAIN | options)))

    return job


@pytest.fixture
def replay(spark: SparkSession, make: Callable[..., Replay]) -> Replayer:
    def run(**options: Any) -> Summary:
        return make(**options).run(spark, Silent())

    return run


def stored(feed: Feed, queue: str) -> dict[str, list[Any]]:
    """Transaction ids by partition, in their order."""
    found: dict[str, list[Any]] = {}
    for row in feed.rows(
        "SELECT p.name, m.transaction_id FROM queen.messages m JOIN queen.partitions p"
        " ON p.id = m.partition_id JOIN queen.queues q ON q.id = m.queue_id"
        " WHERE q.name = $1 ORDER BY p.name, m.seq",
        queue,
    ):
        found.setdefault(row["name"], []).append(row["transaction_id"])
    return found


def test_messages_come_again_in_their_order_and_once(replay: Replayer, feed: Feed) -> None:
    options = {"queues": ("orders",), "target_queue": "again", "batch_rows": 4}
    first = replay(**options)
    assert (first.figures["written"], first.figures["batches"]) == (10, 3)
    wanted = {"a": [f"t{n}" for n in range(0, 10, 2)], "b": [f"t{n}" for n in range(1, 10, 2)]}
    assert stored(feed, "again") == wanted
    (row,) = feed.rows(
        "SELECT m.payload::text FROM queen.messages m JOIN queen.queues q ON q.id = m.queue_id"
        " WHERE q.name = 'again' AND transaction_id = 't3'"
    )
    assert json.loads(row[0]) == {"n": 3}
    again = replay(**options)
    assert (again.figures["written"], again.figures["written by a run before"]) == (0, 10)
    assert stored(feed, "again") == wanted


def test_without_a_target_queues_get_their_own_and_know_what_they_have(
    replay: Replayer, feed: Feed
) -> None:
    feed.push("orders", "here before", partition="a", transaction_id="t4")
    replay(queues=("orders", "other"))
    assert stored(feed, "orders")["a"] == ["t4", "t0", "t2", "t6", "t8"]
    assert stored(feed, "other") == {"Default": ["t0"]}


def test_fresh_ids_are_the_same_each_time(replay: Replayer, feed: Feed) -> None:
    options = {"queues": ("orders",), "partitions": ("a",), "has_fresh_ids": True}
    feed.push("orders", partition="a", transaction_id="t0")
    replay(**options)
    assert len(stored(feed, "orders")["a"]) == 6, "the old one and the new ones"
    # Other batches: known by nothing but their ids.
    replay(**options, batch_rows=2)
    assert len(stored(feed, "orders")["a"]) == 6
    replay(**options, name="once more")
    assert len(set(stored(feed, "orders")["a"])) == 11


def test_time_range_filter_and_partition_rule(replay: Replayer, feed: Feed) -> None:
    replay(
        queues=("orders",),
        since=BEGIN.replace(minute=57),
        until=datetime(2024, 3, 1, 0, 3, tzinfo=UTC),
        where="partition = 'b' OR try_variant_get(payload_variant, '$.n', 'int') = 4",
        target_queue="again",
        partition_expression="concat('p', seq % 2)",
    )
    assert stored(feed, "again") == {"p0": ["t3", "t7"], "p1": ["t4", "t5"]}


def test_a_killed_run_is_resumed_where_it_was(
    replay: Replayer, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"queues": ("orders",), "target_queue": "again", "rate": 4.0}
    write_one = bulk.Batches.of

    def fail_at_the_second(self: bulk.Batches, batch: bulk.Batch) -> Any:
        if batch is self.all[1]:
            raise KeyboardInterrupt
        return write_one(self, batch)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(bulk.Batches, "of", fail_at_the_second)
        replay(**options)
    assert sum(map(len, stored(feed, "again").values())) == 4, "a second of the rate"
    summary = replay(**options)
    assert (summary.figures["written"], summary.figures["written by a run before"]) == (6, 4)
    assert stored(feed, "again")["a"] == ["t0", "t2", "t4", "t6", "t8"]


def test_a_plan_counts_and_changes_nothing(
    spark: SparkSession, make: Callable[..., Replay], feed: Feed
) -> None:
    summary = make(target_queue="again", rate=2.0, where="NOT is_encrypted").plan(spark)
    figures = dict(summary.figures)
    assert (figures["messages"], figures["takes at least (s)"]) == (11, 5.5)
    assert [row[:4] for row in summary.tables["queues"].rows] == [
        ("orders", "again", 10, 2),
        ("other", "again", 1, 1),
    ]
    assert len(summary.tables["sample"].rows) == 5
    json.dumps([table.rows for table in summary.tables.values()])
    assert stored(feed, "again") == {}


def test_encrypted_messages_are_not_replayed(replay: Replayer, feed: Feed) -> None:
    with pytest.raises(InvalidRequest, match="NOT is_encrypted"):
        replay(queues=("secret",), target_queue="again")
    replay(queues=("secret",), target_queue="again", where="NOT is_encrypted")
    assert stored(feed, "again") == {}


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"where": "nope = 1"}, "--where cannot be used: .*nope"),
        ({"where": "partition ="}, "--where cannot be used"),
        ({"partition_expression": "nope"}, "--partition-expression cannot be used: .*nope"),
        ({"partition_expression": "''"}, "partition"),
    ],
)
def test_expressions_that_cannot_be_used_are_named(
    replay: Replayer, options: dict[str, str], word: str
) -> None:
    # Exit code 2: it would not work later either.
    with pytest.raises(InvalidRequest, match=word):
        replay(queues=("orders",), **options)


def test_a_lake_that_is_not_there_is_an_error(
    spark: SparkSession, database_url: str, tmp_path: Path
) -> None:
    options = ReplayOptions(url=database_url, lake=Lake.at(str(tmp_path / "none")), **_PLAIN)
    with pytest.raises(NotFound, match="no lake"):
        Replay(options).run(spark, Silent())


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "--lake"),
        (["--lake", " "], "the lake is empty"),
        (["--lake", "x", "--since", "yesterday"], "--since 'yesterday' is not a time"),
        (["--lake", "x", "--until", "2024-01-01T00:00:00"], "--until '2024-01-01T00:00:00'"),
        (
            ["--lake", "x", "--since", "2024-01-02T00:00Z", "--until", "2024-01-01T00:00Z"],
            "is not before",
        ),
        (["--lake", "x", "--rate", "0"], "--rate must be above 0"),
        (["--lake", "x", "--rate", "many"], "--rate"),
        (["--lake", "x", "--queue", ""], "--queue is empty"),
        (["--lake", "x", "--target-queue", ""], "--target-queue is empty"),
        (["--lake", "x", "--partition", ""], "--partition is empty"),
        (["--lake", "x", "--where", " "], "--where is empty"),
        (["--lake", "x", "--partition-expression", ""], "--partition-expression is empty"),
        (["--lake", "x", "--batch-rows", "0"], "--batch-rows"),
    ],
)
def test_bad_options_are_refused_before_spark_is_started(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = ["--database-url", "postgresql://nobody@localhost/none"]
    assert main.run(["pipeline", "replay", *arguments, *url]) == 2
    assert word in capsys.readouterr().err
