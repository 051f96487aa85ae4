"""`queen pipeline load`: files to a queue, in order, once, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from queenmq.cli import main
from queenmq.errors import InvalidRequest, QueenError
from queenmq.spark.jobs import bulk
from queenmq.spark.jobs.job import Silent, Summary
from queenmq.spark.jobs.load.job import Load
from queenmq.spark.jobs.load.options import LoadOptions, find_format
from tests.support.feed import Feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Loader = Callable[..., Summary]
_PLAIN: dict[str, Any] = {
    "partition": None,
    "partition_column": None,
    "transaction_id_column": None,
    "payload_column": None,
    "sort_columns": (),
    "delimiter": ",",
    "on_error": "fail",
    "dead_letter_queue": None,
    "batch_rows": 100_000,
    "name": "",
    "queue": "in",
}


@pytest.fixture
def make(database_url: str) -> Callable[..., Load]:
    def job(*inputs: Path, **options: Any) -> Load:
        texts = tuple(map(str, inputs))
        given = _PLAIN | {"format": find_format(texts, options.pop("format", None))} | options
        return Load(LoadOptions(url=database_url, inputs=texts, **given))

    return job


@pytest.fixture
def load(spark: SparkSession, make: Callable[..., Load]) -> Loader:
    def run(*inputs: Path, **options: Any) -> Summary:
        return make(*inputs, **options).run(spark, Silent())

    return run


def lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def stored(feed: Feed, queue: str = "in") -> dict[str, list[Any]]:
    """Payloads by partition, in their order."""
    found: dict[str, list[Any]] = {}
    for row in feed.rows(
        "SELECT p.name, m.payload FROM queen.messages m JOIN queen.partitions p"
        " ON p.id = m.partition_id JOIN queen.queues q ON q.id = m.queue_id"
        " WHERE q.name = $1 ORDER BY p.name, m.seq",
        queue,
    ):
        found.setdefault(row["name"], []).append(json.loads(row["payload"]))
    return found


def ids(feed: Feed) -> list[str]:
    rows = feed.rows("SELECT transaction_id FROM queen.messages ORDER BY partition_id, seq")
    return [row[0] for row in rows]


def test_json_lines_are_messages_byte_for_byte(load: Loader, feed: Feed, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"b":1.50, "a":"é"}\n\n  \n[1, 2]\n"text"\n')
    summary = load(file)
    rows = feed.rows("SELECT payload::text FROM queen.messages ORDER BY seq")
    assert [row[0] for row in rows] == ['{"b":1.50, "a":"é"}', "[1, 2]", '"text"']
    assert summary.figures["written"] == 3


def test_partition_id_and_payload_come_from_fields_of_json_lines(
    load: Loader, feed: Feed, tmp_path: Path
) -> None:
    rows = [{"who": n % 2, "key": f"k{n}", "body": {"n": n}} for n in range(4)]
    options = {"partition_column": "who", "transaction_id_column": "key", "payload_column": "body"}
    load(lines(tmp_path / "in.json", *rows), **options)
    assert stored(feed) == {"0": [{"n": 0}, {"n": 2}], "1": [{"n": 1}, {"n": 3}]}
    assert sorted(ids(feed)) == ["k0", "k1", "k2", "k3"]


def test_columns_of_parquet_keep_their_values(
    spark: SparkSession, load: Loader, feed: Feed, tmp_path: Path
) -> None:
    place = tmp_path / "in.parquet"
    spark.sql(
        "SELECT 7L AS id, 'a.b' AS `odd.name`, CAST(NULL AS string) AS nothing,"
        " TIMESTAMP '2024-02-29 12:00:00.123456Z' AS at, named_struct('x', 1) AS body"
    ).write.parquet(str(place))
    load(place, partition_column="odd.name", transaction_id_column="id")
    assert stored(feed) == {
        "a.b": [
            {
                "id": 7,
                "odd.name": "a.b",
                "nothing": None,
                "at": "2024-02-29T12:00:00.123456Z",
                "body": {"x": 1},
            }
        ]
    }
    load(place, payload_column="body", partition="const", queue="other")
    assert stored(feed, "other") == {"const": [{"x": 1}]}


def test_csv_columns_are_text(load: Loader, feed: Feed, tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_text('who;n\na;1\n"b;b";2\n')
    load(file, delimiter=";", partition_column="who")
    assert stored(feed) == {"a": [{"who": "a", "n": "1"}], "b;b": [{"who": "b;b", "n": "2"}]}


def test_order_is_that_of_the_files_or_of_a_column(
    load: Loader, feed: Feed, tmp_path: Path
) -> None:
    lines(tmp_path / "b.jsonl", *({"n": n, "t": 20 - n} for n in range(10, 20)))
    lines(tmp_path / "a.jsonl", *({"n": n, "t": 20 - n} for n in range(10)))
    load(tmp_path, format="json", batch_rows=7)
    assert [row["n"] for row in stored(feed)["Default"]] == list(range(20))
    load(tmp_path, format="json", batch_rows=7, sort_columns=("t",), queue="sorted")
    assert [row["t"] for row in stored(feed, "sorted")["Default"]] == list(range(1, 21))


def test_twice_is_once_also_after_the_messages_are_gone(
    load: Loader, feed: Feed, tmp_path: Path
) -> None:
    # Some rows are the same, and are messages of their own.
    file = lines(tmp_path / "in.jsonl", *({"n": n // 2} for n in range(10)))
    first = load(file, batch_rows=4)
    assert (first.figures["written"], first.figures["batches"]) == (10, 3)
    again = load(file, batch_rows=4)
    assert (again.figures["written"], again.figures["written by a run before"]) == (0, 10)
    assert stored(feed) == {"Default": [{"n": n // 2} for n in range(10)]}
    feed.execute("SELECT queen.clear_queue('in', NULL)")
    load(file, batch_rows=4)
    assert stored(feed) == {}


def test_other_batches_of_the_same_rows_add_nothing(
    load: Loader, feed: Feed, tmp_path: Path
) -> None:
    file = lines(tmp_path / "in.jsonl", *({"n": n} for n in range(10)))
    load(file, batch_rows=4)
    assert load(file, batch_rows=3).figures["written"] == 10
    assert len(stored(feed)["Default"]) == 10, "known by their transaction ids"


def test_another_name_loads_once_more(load: Loader, feed: Feed, tmp_path: Path) -> None:
    file = lines(tmp_path / "in.jsonl", {"n": 1})
    load(file)
    load(file, name="again")
    assert stored(feed) == {"Default": [{"n": 1}, {"n": 1}]}


def test_a_run_that_was_killed_is_resumed(
    load: Loader, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = lines(tmp_path / "in.jsonl", *({"n": n} for n in range(10)))
    write_one = bulk.Batches.of

    def fail_at_the_third(self: bulk.Batches, batch: bulk.Batch) -> Any:
        if batch is self.all[2]:
            raise KeyboardInterrupt
        return write_one(self, batch)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(bulk.Batches, "of", fail_at_the_third)
        load(file, batch_rows=3)
    assert [row["n"] for row in stored(feed)["Default"]] == list(range(6))
    rest = load(file, batch_rows=3)
    assert (rest.figures["written"], rest.figures["written by a run before"]) == (4, 6)
    assert [row["n"] for row in stored(feed)["Default"]] == list(range(10))


BAD = [{"p": "a", "n": 1}, {"n": 2}, {"p": "b", "n": 3}]


def test_a_bad_row_fails_the_load(load: Loader, feed: Feed, tmp_path: Path) -> None:
    file = lines(tmp_path / "in.jsonl", *BAD)
    with pytest.raises(InvalidRequest, match="partition"):
        load(file, partition_column="p")
    assert stored(feed) == {}


def test_bad_rows_can_be_put_aside(load: Loader, feed: Feed, tmp_path: Path) -> None:
    file = lines(tmp_path / "in.jsonl", *BAD)
    file.write_text(file.read_text() + '{"p": "a", "n":\n')
    options = {"partition_column": "p", "on_error": "deadletter", "dead_letter_queue": "bad"}
    for _ in range(2):
        load(file, **options)
    assert stored(feed) == {"a": [{"p": "a", "n": 1}], "b": [{"p": "b", "n": 3}]}
    assert sum(map(len, stored(feed, "bad").values())) == 2


def test_a_row_without_its_transaction_id_is_bad(load: Loader, tmp_path: Path) -> None:
    file = lines(tmp_path / "in.jsonl", {"id": 1}, {"other": 2})
    with pytest.raises(InvalidRequest, match="transaction_id"):
        load(file, transaction_id_column="id")


def test_a_plan_counts_and_shows_and_changes_nothing(
    spark: SparkSession, make: Callable[..., Load], feed: Feed, tmp_path: Path
) -> None:
    file = lines(tmp_path / "in.jsonl", *BAD, {"p": "a", "n": 1})
    file.write_text(file.read_text() + "{broken\n")
    summary = make(file, partition_column="p", transaction_id_column="n").plan(spark)
    figures = dict(summary.figures)
    assert (figures["rows"], figures["bad rows"], figures["files"]) == (5, 2, 1)
    assert figures["rows that repeat an id"] == 1
    assert [row[:2] for row in summary.tables["sample"].rows[:2]] == [("a", "1"), (None, "2")]
    assert len(summary.tables["bad rows"].rows) == 1
    json.dumps([table.rows for table in summary.tables.values()])
    assert feed.rows("SELECT FROM queen.queues") == []


def test_files_without_rows_load_nothing(load: Loader, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("\n")
    assert load(tmp_path / "in.jsonl").figures["messages"] == 0


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"partition_column": "nope"}, "--partition-column 'nope' is not a column; use one of n"),
        ({"transaction_id_column": "nope"}, "--transaction-id-column 'nope'"),
        ({"payload_column": "nope"}, "--payload-column 'nope'"),
        ({"sort_columns": ("nope",)}, "--sort-column 'nope'"),
        ({"payload_column": "n"}, "--payload-column 'n' is of type bigint"),
    ],
)
def test_columns_that_are_not_there_or_of_no_use_are_named(
    spark: SparkSession, load: Loader, tmp_path: Path, options: dict[str, Any], word: str
) -> None:
    spark.range(1).toDF("n").write.parquet(str(tmp_path / "in.parquet"))
    with pytest.raises(InvalidRequest, match=word):
        load(tmp_path / "in.parquet", **options)


def test_files_that_are_not_there_or_hold_something_else_are_an_error(
    load: Loader, tmp_path: Path
) -> None:
    with pytest.raises(QueenError, match=r"cannot be read.*missing.parquet"):
        load(tmp_path / "missing.parquet")
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(QueenError, match="cannot be read"):
        load(tmp_path / "text.parquet")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["in.txt", "--queue", "q"], "in.txt"),
        (["a.csv", "b.parquet", "--queue", "q"], "--format"),
        (["in.csv", "--queue", ""], "--queue is empty"),
        (["in.csv", "--queue", "q" * 256], "--queue has 256 characters"),
        (["in.csv", "--queue", "q", "--partition", ""], "--partition is empty"),
        (["in.csv", "--queue", "q", "--partition", "p", "--partition-column", "c"], "exclude"),
        (["in.csv", "--queue", "q", "--partition-column", ""], "--partition-column is empty"),
        (["in.csv", "--queue", "q", "--dead-letter-queue", "d"], "--on-error deadletter"),
        (["in.csv", "--queue", "q", "--delimiter", "ab"], "--delimiter"),
        (["in.jsonl", "--queue", "q", "--sort-column", "it's"], "quote"),
        (["in.csv", "--queue", "q", "--batch-rows", "0"], "--batch-rows"),
        (["in.csv", "--queue", "q", "--on-error", "ignore"], "--on-error"),
        (["in.csv", "--queue", "q", "--format", "orc"], "--format"),
        (["in.csv"], "--queue"),
        (["--queue", "q"], "inputs'"),
    ],
)
def test_bad_options_are_refused_before_spark_is_started(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = ["--database-url", "postgresql://nobody@localhost/none"]
    assert main.run(["pipeline", "load", *arguments, *url]) == 2
    assert word in capsys.readouterr().err
