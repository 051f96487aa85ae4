"""Bad input ends in one sentence, and nothing is half published or read."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import asyncpg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from queenmq.errors import QueenError, StorageRejected, StorageUnavailable
from queenmq.ids import random_uuid
from queenmq.spark.sink.lists import make_lists
from queenmq.spark.sink.options import parse_sink_options
from queenmq.spark.sink.rows import check_batches
from queenmq.spark.sink.sealing import Sealer
from queenmq.spark.sink.store import Stage, open_store, publish
from queenmq.spark.source.batch_reader import QueenBatchReader
from queenmq.spark.source.offsets import DataLoss
from queenmq.spark.source.options import read_options
from tests.support.feed import Feed
from tests.support.own_postgres import OwnPostgres
from tests.support.shared_postgres import SharedPostgres
from tests.support.staging import staged, stored

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: More than a log segment has, which no server can do without; less than the rows of a test take.
_FILE_BYTES_MAX = 20 * 2**20
_ROWS = 10_000


def reader(url: str, **options: str) -> QueenBatchReader:
    return QueenBatchReader(
        read_options({"url": url, "queue": "orders"} | options, is_stream=False)
    )


def write(spark: SparkSession, url: str, rows: int = 20) -> None:
    """Some rows to several partitions, in two tasks."""
    frame = spark.range(0, rows, 1, 2).select(
        F.concat(F.lit("p"), (F.col("id") % 3).cast("string")).alias("partition"),
        F.col("id").cast("string").alias("payload"),
    )
    frame.write.format("queen").mode("append").options(url=url, queue="orders").save()


# Reading.


def test_messages_removed_after_planning_stop_the_task(feed: Feed) -> None:
    feed.push_all("orders", [f"p{n}" for n in range(5)], times=2)
    plan = reader(feed.url)
    (split,) = plan.partitions()
    feed.execute("DELETE FROM queen.messages WHERE seq = 1")
    feed.execute("VACUUM queen.messages")
    with pytest.raises(DataLoss, match=r"^5 messages were removed before they were read") as error:
        list(plan.read(split))
    assert "\n" not in str(error.value)
    lenient = reader(feed.url, failOnDataLoss="false")
    assert [batch.num_rows for batch in lenient.read(split)] == [5]


def test_a_queue_deleted_after_planning_stops_the_task(feed: Feed) -> None:
    feed.push_all("orders", ["a", "b"])
    plan = reader(feed.url)
    (split,) = plan.partitions()
    feed.execute("SELECT queen.delete_queue('orders')")
    with pytest.raises(DataLoss, match=r"^2 messages were removed"):
        list(plan.read(split))


def test_a_wrong_password_is_told_without_it(postgres: SharedPostgres) -> None:
    if postgres.tcp_url is None:
        pytest.skip("this server asks for no password")
    parts = urlsplit(postgres.tcp_url)
    url = postgres.tcp_url.replace(f":{parts.password}@", ":guessed@")
    for attempt in (reader(url).partitions, open_store(url).__enter__):
        with pytest.raises(StorageUnavailable, match="password authentication failed") as error:
            attempt()
        assert "\n" not in str(error.value) and "guessed" not in str(error.value)


# Roles.


@pytest.fixture
def stranger(feed: Feed, postgres: SharedPostgres) -> Iterator[str]:
    """The URL of a role that may do nothing."""
    with postgres.role("spark_stranger", feed.url) as url:
        yield url


def test_a_role_without_rights_reads_nothing(
    feed: Feed, stranger: str, read: Callable[..., DataFrame]
) -> None:
    feed.push("orders")
    with pytest.raises(Exception, match="the role of the option url may not read Queen's tables"):
        read(url=stranger, queue="orders").collect()


#: What a role is granted, and the sentence that it gets.
_GRANTS = {
    "nothing": ("SELECT", "queues could not be looked up: permission denied for schema"),
    "staging alone": (
        "GRANT USAGE ON SCHEMA queen TO spark_stranger;"
        " GRANT EXECUTE ON FUNCTION queen.discard_staged TO spark_stranger;"
        " GRANT SELECT ON queen.queues TO spark_stranger;"
        " GRANT SELECT, INSERT, DELETE ON queen.spark_staging TO spark_stranger",
        "the batch was not published: permission denied for",
    ),
    "staging and functions": (
        "GRANT USAGE ON SCHEMA queen TO spark_stranger;"
        " GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA queen TO spark_stranger;"
        " GRANT SELECT ON queen.queues TO spark_stranger;"
        " GRANT SELECT, INSERT, DELETE ON queen.spark_staging TO spark_stranger",
        "the batch was not published: permission denied for table spark_commits",
    ),
}


@pytest.mark.parametrize("grants", _GRANTS)
async def test_a_role_without_rights_writes_nothing(
    spark: SparkSession, feed: Feed, database: asyncpg.Connection, stranger: str, grants: str
) -> None:
    statements, sentence = _GRANTS[grants]
    await database.execute(statements)
    with pytest.raises(Exception, match=sentence):
        write(spark, stranger)
    assert await stored(database, "orders") == []
    assert await staged(database) == 0
    assert await database.fetchval("SELECT count(*) FROM queen.spark_commits") == 0


# The server.


def stage(url: str, rows: int) -> Stage:
    """Stage this many rows as a task does."""
    options = parse_sink_options(
        {"url": url, "queue": "orders"}, {"payload": "string"}, is_stream=False
    )
    stage_id = random_uuid()
    payloads = pa.record_batch({"payload": pa.repeat(f'"{"x" * 300}"', _ROWS)})
    batches = (payloads.slice(0, min(_ROWS, rows - done)) for done in range(0, rows, _ROWS))
    with open_store(url) as store:
        sealer = Sealer((), store.find_encrypted)
        checked = sealer.seal(check_batches(batches, options, sealer.is_encrypted))
        for batch, _ in make_lists(checked, stage_id):
            store.stage(batch)
    return Stage(str(stage_id), rows)


def count(server: OwnPostgres, table: str) -> int:
    async def ask() -> int:
        session = await asyncpg.connect(server.url)
        try:
            found: int = await session.fetchval(f"SELECT count(*) FROM queen.{table}")
            return found
        finally:
            await session.close()

    return asyncio.run(ask())


def test_a_server_that_crashed_in_between_refuses_the_batch(server: OwnPostgres) -> None:
    staged_rows = stage(server.url, 100)
    server.kill()
    server.start()
    with pytest.raises(StorageUnavailable, match="of 100 staged rows 0 are there") as error:
        publish(server.url, "stream:test", 0, [staged_rows])
    assert "run the batch again" in str(error.value)
    assert (count(server, "messages"), count(server, "spark_commits")) == (0, 0)
    assert publish(server.url, "stream:test", 0, [stage(server.url, 100)]).stored == 100


def test_a_server_that_was_restarted_in_between_publishes_the_batch(server: OwnPostgres) -> None:
    staged_rows = stage(server.url, 100)
    server.stop()
    with pytest.raises(StorageUnavailable, match="the database of option url cannot be used"):
        publish(server.url, "stream:test", 0, [staged_rows])
    server.start()
    assert publish(server.url, "stream:test", 0, [staged_rows]).stored == 100


def test_a_planned_read_outlives_a_restart(server: OwnPostgres) -> None:
    publish(server.url, "stream:test", 0, [stage(server.url, 100)])
    plan = reader(server.url, retrySeconds="0")
    (split,) = plan.partitions()
    server.kill()
    with pytest.raises(StorageUnavailable, match="cannot use PostgreSQL at") as error:
        list(plan.read(split))
    assert "\n" not in str(error.value)
    server.start()
    assert sum(batch.num_rows for batch in plan.read(split)) == 100


# A disk that is full: files that may not grow are the same to a server.


def restart(server: OwnPostgres, most: int = resource.RLIM_INFINITY) -> None:
    """Start it again so that no file grows beyond that."""
    server.stop()
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A server has the limits of whoever starts it.
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        server.start()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def test_a_disk_that_is_full_while_staging_fails_the_task(server: OwnPostgres) -> None:
    restart(server, _FILE_BYTES_MAX)
    with pytest.raises(QueenError, match="rows could not be staged: could not extend") as error:
        stage(server.url, 80_000)
    assert "\n" not in str(error.value)
    assert (count(server, "messages"), count(server, "spark_commits")) == (0, 0)


def test_a_disk_that_is_full_while_publishing_leaves_the_batch_as_it_was(
    server: OwnPostgres,
) -> None:
    publish(server.url, "stream:test", 0, [stage(server.url, 25_000)])
    asyncio.run(server.execute("TRUNCATE queen.spark_staging"))
    staged_rows = stage(server.url, 40_000)
    restart(server, _FILE_BYTES_MAX)
    with pytest.raises(StorageRejected, match="the batch was not published: could not") as error:
        publish(server.url, "stream:test", 1, [staged_rows])
    assert "\n" not in str(error.value)
    assert (count(server, "messages"), count(server, "spark_commits")) == (25_000, 1)
    restart(server)
    assert publish(server.url, "stream:test", 1, [staged_rows]).stored == 40_000
    assert count(server, "spark_staging") == 0
