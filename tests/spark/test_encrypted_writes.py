"""Writing to encrypted queues from Spark: brokers can read it, and nothing is in clear."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from queenmq.cli import main
from queenmq.errors import InvalidRequest, QueenError
from queenmq.spark import write_once
from queenmq.spark.jobs.job import Silent, Summary
from queenmq.spark.jobs.load.job import Load
from queenmq.spark.jobs.load.options import LoadOptions
from queenmq.spark.jobs.replay.job import Replay
from queenmq.spark.jobs.replay.options import ReplayOptions
from queenmq.spark.jobs.stream import StreamJob
from queenmq.spark.lake import Lake
from queenmq.spark.streams.definition import load_definition
from tests.support.archive import run_archive
from tests.support.broker import running_broker
from tests.support.encryption import (
    dump,
    encrypt,
    files_with,
    key_ids,
    key_ids_of,
    pop,
    pop_payloads,
    write_keys,
)
from tests.support.feed import Feed
from tests.support.own_postgres import OwnPostgres
from tests.support.spark_sink import read_lines, start_stream

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: Found nowhere but in payloads of these tests.
SECRET = "the-launch-code"
Rows = Callable[..., DataFrame]
_STREAM = """
name = "copy"
checkpoint = "{checkpoint}"
[source]
queue = "secret"
starting = "earliest"
[fields]
code = "string"
[select]
code = "upper(code)"
[sink]
queue = "copied"
"""


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A file with a key."""
    file = tmp_path / "keys"
    write_keys(file)
    return file


@pytest.fixture
def rows(spark: SparkSession) -> Rows:
    """A frame of messages; of two, the second has no transaction id."""

    def make(count: int = 2, **columns: str) -> DataFrame:
        values = [
            (json.dumps({"code": SECRET, "n": n}), f"t{n}" if n == 0 else None, *columns.values())
            for n in range(count)
        ]
        names = ["payload string", "transaction_id string", *(f"{name} string" for name in columns)]
        return spark.createDataFrame(values, ", ".join(names))

    return make


def write(frame: DataFrame, **options: str) -> None:
    frame.write.format("queen").mode("append").options(**options).save()


def messages(feed: Feed) -> int:
    count: int = feed.rows("SELECT count(*) AS n FROM queen.messages")[0]["n"]
    return count


def expected(count: int = 2) -> list[Any]:
    return [{"code": SECRET, "n": n} for n in range(count)]


def test_every_way_of_writing_is_read_by_a_broker_and_is_nowhere_in_clear(
    spark: SparkSession, server: OwnPostgres, rows: Rows, keys: Path, tmp_path: Path
) -> None:
    options = {"url": server.url, "encryptionKeys": str(keys)}
    queues = ("batch", "stream", "once", "inserted", "loaded")
    folder = tmp_path / "in"
    folder.mkdir()
    lines = [
        {"partition": "p0", "n": n, "payload": json.dumps(p)} for n, p in enumerate(expected())
    ]
    (folder / "0.json").write_text("\n".join(map(json.dumps, lines)))
    with Feed(server.url) as feed:
        encrypt(feed, *queues)
        # Twice: a batch that runs again is known by what it holds, though it looks different.
        for _ in range(2):
            write(rows().coalesce(1), queue="batch", writeId="batch", **options)
        stream = read_lines(spark, folder).coalesce(1)
        start_stream(stream, tmp_path / "a", queue="stream", **options).awaitTermination()
        query = (
            stream.writeStream.foreachBatch(
                lambda frame, batch: write_once(frame, batch, queue="once", **options)
            )
            .option("checkpointLocation", str(tmp_path / "b"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        _insert(spark, rows().coalesce(1), options)
        load = LoadOptions(
            url=server.url, inputs=(str(folder),), format="json", queue="loaded", partition=None,
            partition_column=None, transaction_id_column=None, payload_column="payload",
            sort_columns=(), delimiter=",", on_error="fail", dead_letter_queue=None,
            batch_rows=10, name="", key_file=str(keys),
        )  # fmt: skip
        assert Load(load).run(spark, Silent()).is_ok
        assert messages(feed) == 2 * len(queues)
        assert SECRET not in dump(feed)
    with running_broker(database_url=server.url, QUEEN_ENCRYPTION_KEY_FILE=str(keys)) as broker:
        for queue in queues:
            assert pop_payloads(broker, queue) == expected(), queue
    server.stop()
    # Tables, what was staged, the log of the server and of its writes.
    assert files_with(server.home, SECRET) == []


def _insert(spark: SparkSession, frame: DataFrame, options: dict[str, str]) -> None:
    frame.createOrReplaceTempView("written")
    texts = ", ".join(f"{name} '{value}'" for name, value in options.items())
    spark.sql(f"CREATE TABLE inserted USING queen OPTIONS ({texts}, queue 'inserted')")
    try:
        spark.sql(
            "INSERT INTO inserted (payload, transaction_id)"
            " SELECT payload, transaction_id FROM written"
        )
        found = spark.sql("SELECT payload FROM inserted ORDER BY seq").collect()
        assert [json.loads(row.payload) for row in found] == expected()
    finally:
        spark.sql("DROP TABLE inserted")


def test_the_look_for_clear_text_finds_some(server: OwnPostgres, rows: Rows) -> None:
    with Feed(server.url) as feed:
        write(rows(), url=server.url, queue="open")
        assert SECRET in dump(feed)
    server.stop()
    assert files_with(server.home, SECRET)


def test_without_keys_a_write_does_not_start(
    spark: SparkSession, feed: Feed, database_url: str, rows: Rows, tmp_path: Path
) -> None:
    encrypt(feed, "secret")
    sentence = r"queue secret is encrypted.*option encryptionKeys"
    with pytest.raises(PySparkException, match=sentence):
        write(rows(), url=database_url, queue="secret")
    with pytest.raises(PySparkException, match=sentence):
        write(rows(queue="secret"), url=database_url)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"partition": "p0", "payload": "1"}')
    with pytest.raises(PySparkException, match=sentence):
        lines = read_lines(spark, tmp_path / "in")
        start_stream(lines, tmp_path / "c", url=database_url, queue="secret").awaitTermination()
    with pytest.raises(PySparkException, match="is not a key"):
        (tmp_path / "bad").write_text("abc")
        write(rows(), url=database_url, queue="secret", encryptionKeys=str(tmp_path / "bad"))
    assert messages(feed) == 0
    assert feed.rows("SELECT FROM queen.spark_staging") == []


def test_commands_say_it_before_spark_starts(
    feed: Feed, database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encrypt(feed, "secret")
    (tmp_path / "in.jsonl").write_text("{}")
    command = ["pipeline", "load", str(tmp_path / "in.jsonl"), "--queue", "secret"]
    place = ["--database-url", database_url]
    assert main.run([*command, *place]) == 2
    assert "queue secret is encrypted" in capsys.readouterr().err
    missing = ["--encryption-keys", str(tmp_path / "none")]
    assert main.run([*command, *place, *missing]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_keys_are_rotated_and_missing_ones_lose_nothing(
    feed: Feed, database_url: str, rows: Rows, keys: Path, tmp_path: Path
) -> None:
    encrypt(feed, "secret")
    old = keys.read_text()
    both = tmp_path / "both"
    write_keys(both, old)
    frame = rows().coalesce(1)
    options = {"url": database_url, "queue": "secret", "partition": "p0"}
    write(frame, **options, encryptionKeys=str(keys))
    # Its first row has the transaction id of one that is there.
    write(frame, **options, encryptionKeys=str(both))
    assert key_ids_of(feed, "secret") == [*key_ids(keys), *key_ids(keys), key_ids(both)[0]]
    with running_broker(database_url=database_url, QUEEN_ENCRYPTION_KEY_FILE=str(keys)) as broker:
        answer = pop(broker, "secret")
        assert (answer.status_code, answer.json()["code"]) == (503, "encryption_key_missing")
    with running_broker(database_url=database_url, QUEEN_ENCRYPTION_KEY_FILE=str(both)) as broker:
        assert pop_payloads(broker, "secret") == [*expected(), expected()[1]]


def test_bad_rows_of_an_encrypted_queue_stay_secret(
    spark: SparkSession, feed: Feed, database_url: str, keys: Path
) -> None:
    encrypt(feed, "secret")
    frame = spark.createDataFrame([(SECRET,)], "payload string")
    options = {"url": database_url, "queue": "secret", "encryptionKeys": str(keys)}
    with pytest.raises(PySparkException, match="set encryptionEnabled of that queue") as refused:
        write(frame, **options, onError="deadletter")
    assert SECRET not in str(refused.value) and messages(feed) == 0
    encrypt(feed, "secret.deadletter")
    write(frame, **options, onError="deadletter")
    assert key_ids_of(feed, "secret.deadletter") == key_ids(keys)


def test_a_replay_encrypts_for_the_new_queue(
    spark: SparkSession, feed: Feed, database_url: str, rows: Rows, keys: Path, tmp_path: Path
) -> None:
    encrypt(feed, "secret", "again")
    write(rows(4).coalesce(1), url=database_url, queue="secret", encryptionKeys=str(keys))
    lake = str(tmp_path / "lake")
    run_archive(spark, database_url, lake, queue="secret")

    def replay(target: str, key_file: Path | None) -> Summary:
        options = ReplayOptions(
            url=database_url, lake=Lake.at(lake), queues=("secret",), partitions=(), since=None,
            until=None, where=None, target_queue=target, partition_expression="'q' || partition",
            has_fresh_ids=True, rate=None, batch_rows=3, name="",
            key_file=None if key_file is None else str(key_file),
        )  # fmt: skip
        return Replay(options).run(spark, Silent())

    with pytest.raises(InvalidRequest, match="--encryption-keys"):
        replay("again", None)
    write_keys(tmp_path / "other")
    with pytest.raises(QueenError, match=f"with key {key_ids(keys)[0]}"):
        replay("again", tmp_path / "other")
    with pytest.raises(QueenError, match="'open' that it goes to is not"):
        replay("open", keys)
    assert messages(feed) == 4
    both = tmp_path / "both"
    write_keys(both, keys.read_text())
    for written in (4, 0):
        assert replay("again", both).figures["written"] == written
    assert key_ids_of(feed, "again") == [key_ids(both)[0]] * 4
    with running_broker(database_url=database_url, QUEEN_ENCRYPTION_KEY_FILE=str(both)) as broker:
        assert pop_payloads(broker, "again") == expected(4)
    assert SECRET not in dump(feed)
    assert files_with(Path(lake), SECRET) == []


def test_a_declared_stream_reads_and_writes_encrypted_queues(
    spark: SparkSession, feed: Feed, database_url: str, rows: Rows, keys: Path, tmp_path: Path
) -> None:
    encrypt(feed, "secret", "copied")
    write(rows().coalesce(1), url=database_url, queue="secret", encryptionKeys=str(keys))
    file = tmp_path / "copy.toml"
    file.write_text(_STREAM.format(checkpoint=tmp_path / "checkpoint"))
    job = StreamJob(
        load_definition(file), file.name, database_url, is_once=True, key_file=str(keys)
    )
    assert job.run(spark, Silent()).figures["unfit"] == 0
    with running_broker(database_url=database_url, QUEEN_ENCRYPTION_KEY_FILE=str(keys)) as broker:
        assert pop_payloads(broker, "copied") == [{"code": SECRET.upper()}] * 2
    assert SECRET not in dump(feed) and SECRET.upper() not in dump(feed)
