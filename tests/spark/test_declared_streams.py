"""Declared streams on a real Spark: the examples, late messages to the last one, restarts."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from queenmq.errors import InvalidRequest
from queenmq.spark.jobs.job import Silent, Summary
from queenmq.spark.jobs.stream import StreamFailed, StreamJob
from queenmq.spark.streams.definition import load_definition
from tests.support.feed import Feed
from tests.support.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples" / "streams"
NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)

SOON_S = 120
Run = Callable[..., Summary]

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def run(spark: SparkSession, database_url: str, tmp_path: Path) -> Run:
    """Runs a stream over what is there; a file of the examples, or a text."""

    def once(what: str, *, is_plan: bool = False, **options: Any) -> Summary:
        file = tmp_path / (what if what.endswith(".toml") else "stream.toml")
        if what.endswith(".toml"):
            shutil.copy(EXAMPLES / what, file)
        else:
            file.write_text(what)
        definition = load_definition(file)
        job = StreamJob(definition, file.name, database_url, is_once=True, **options)
        return job.plan(spark) if is_plan else job.run(spark, Silent())

    return once


def stored(feed: Feed, queue: str) -> list[tuple[str, Any]]:
    """Partition and payload of all messages, in order."""
    rows = feed.rows(
        "SELECT p.name, m.payload::text FROM queen.messages m"
        " JOIN queen.partitions p ON p.id = m.partition_id JOIN queen.queues q ON q.id = m.queue_id"
        " WHERE q.name = $1 ORDER BY p.name, m.seq",
        queue,
    )
    return [(row["name"], json.loads(row["payload"])) for row in rows]


def at(**after_noon: float) -> str:
    return (NOON + timedelta(**after_noon)).isoformat()


def order(feed: Feed, customer: Any, total: Any, placed_at: str | None) -> None:
    payload = {"customer": customer, "total": total, "placed_at": placed_at}
    feed.push("orders", payload, partition="any")


# The examples.


def test_tumbling_windows_set_late_and_unfit_messages_aside(run: Run, feed: Feed) -> None:
    for seconds, total in ((10, 1.5), (50, "2.25"), (65, 4), (70, -1)):
        order(feed, "c1", total, at(seconds=seconds))
    order(feed, "c2", 8, at(seconds=20))
    order(feed, "c2", "much", at(seconds=20))
    order(feed, "", 1, at(seconds=20))
    order(feed, "c2", 1, None)
    order(feed, "c2", 1, at(days=100_000))
    # The watermark is now at 12:02:00.
    order(feed, "c1", 1, at(seconds=150))
    first = run("tumbling.toml")
    assert (first.figures["late"], first.figures["unfit"]) == (0, 4)
    minute = {"window_start": "2024-02-29T12:00:00.000Z", "window_end": "2024-02-29T12:01:00.000Z"}
    later = {"window_start": "2024-02-29T12:01:00.000Z", "window_end": "2024-02-29T12:02:00.000Z"}
    results = [
        ("c1", {**minute, "key": "c1", "orders": 2, "turnover": 3.75}),
        ("c1", {**later, "key": "c1", "orders": 1, "turnover": 4.0}),
        ("c2", {**minute, "key": "c2", "orders": 1, "turnover": 8.0}),
    ]
    assert stored(feed, "turnover") == results
    # The end of its minute is the watermark, so that is over; one later is not.
    order(feed, "c1", 100, at(seconds=119))
    order(feed, "c1", 100, at(seconds=121))
    second = run("tumbling.toml", fail_on_late=True)
    assert second.figures["late"] == 1 and not second.is_ok
    assert stored(feed, "turnover") == results
    letters = [letter for _, letter in stored(feed, "turnover.late")]
    reasons = {letter["reason"]: letter["payload"].get("placed_at") for letter in letters}
    assert set(reasons) == {
        "late",
        "$.total is not of type decimal(12, 2)",
        "the key is not a valid partition name",
        "the event time is missing",
        "the event time is ahead",
    }
    (late,) = [letter for letter in letters if letter["reason"] == "late"]
    assert late["payload"]["placed_at"] == at(seconds=119)
    assert late["missed"] == [{"start": later["window_start"], "end": later["window_end"]}]
    assert late["watermark"] == "2024-02-29T12:02:00.000Z"


def log(feed: Feed, queue: str, level: str, when: str) -> None:
    feed.push(queue, {"level": level, "origin": {"service": "api"}, "at": when})


def test_sliding_windows_count_a_message_in_each_of_theirs(run: Run, feed: Feed) -> None:
    for queue in ("log.a", "log.b"):
        feed.execute(
            "INSERT INTO queen.queues (id, name, namespace) VALUES (gen_random_uuid(), $1, 'logs')",
            queue,
        )
        log(feed, queue, "error", at(seconds=30))
    log(feed, "log.a", "info", at(seconds=30))
    log(feed, "log.a", "error", at(minutes=20))
    run("sliding.toml")
    ends = [payload["window_end"][11:16] for _, payload in stored(feed, "error-rates")]
    assert ends == ["12:01", "12:02", "12:03", "12:04", "12:05"]
    assert {payload["errors"] for _, payload in stored(feed, "error-rates")} == {2}


def view(feed: Feed, visitor: str, page: str, when: str) -> None:
    feed.push("page-views", {"visitor": visitor, "page": page, "at": when})


def test_sessions_become_rows_of_a_table(run: Run, feed: Feed, tmp_path: Path) -> None:
    for minutes in (0, 20, 45, 90):
        view(feed, "v1", f"/{minutes}", at(minutes=minutes))
    view(feed, "v2", "/", at(hours=5))
    run("session.toml")
    view(feed, "v1", "/late", at(minutes=1))
    view(feed, "v3", "/", at(hours=9))
    summary = run("session.toml")
    assert summary.figures["late"] == 1
    # As after a crash between the commit of the table and Spark's own note of it.
    notes = tmp_path / "checkpoints" / "session" / "commits"
    last = max(int(note.name) for note in notes.glob("[0-9]*"))
    for note in (f"{last}", f".{last}.crc"):
        (notes / note).unlink()
    run("session.toml")
    rows = DeltaTable(str(tmp_path / "lake" / "visits")).to_pyarrow_table().to_pylist()
    found = [(row["key"], row["first_page"], row["last_page"], row["pages"]) for row in rows]
    assert sorted(found) == [("v1", "/0", "/45", 3), ("v1", "/90", "/90", 1), ("v2", "/", "/", 1)]
    (late,) = DeltaTable(str(tmp_path / "lake" / "visits-late")).to_pyarrow_table().to_pylist()
    assert (late["reason"], json.loads(late["payload"])["page"]) == ("late", "/late")


def test_a_filter_passes_each_message_once(run: Run, feed: Feed) -> None:
    for number, total in enumerate((5, 1000, 999, 2000.5)):
        payload = {"customer": f"c{number % 2}", "total": total}
        feed.push("orders", payload, partition=f"p{number}", transaction_id="the same in each")
    assert run("filter.toml").figures["messages"] == 4
    feed.push("orders", {"customer": "c1", "total": 3000})
    assert run("filter.toml").figures["messages"] == 1
    found = [(partition, payload["total"]) for partition, payload in stored(feed, "large-orders")]
    assert found == [("c1", 1000.0), ("c1", 2000.5), ("c1", 3000.0)]


# Each message is in every window of its own once: in a result, or among those that came late.

WINDOWS = {
    "tumbling": 'type = "tumbling"\nsize = "1 minute"',
    "sliding": 'type = "sliding"\nsize = "3 minutes"\nslide = "1 minute"',
    "session": 'type = "session"\ngap = "20 seconds"',
}


def declared(window: str) -> str:
    return f"""
        name = "sums"
        checkpoint = "checkpoint"
        key = "key"
        [source]
        queue = "numbers"
        max_messages = 30
        [fields]
        key = "string"
        value = "long"
        at = "timestamp"
        [window]
        {WINDOWS[window]}
        time = "at"
        watermark = "10 seconds"
        [aggregations]
        total = "sum(value)"
        [sink]
        queue = "sums"
        [late]
        queue = "sums.late"
    """


@pytest.mark.parametrize("window", ["sliding", pytest.param("session", marks=pytest.mark.jobs)])
def test_results_and_late_messages_are_all_there_is(run: Run, feed: Feed, window: str) -> None:
    chance = random.Random(window)
    copies = 3 if window == "sliding" else 1
    wanted: Counter[str] = Counter()
    for number in range(120):
        # Time goes on, and every now and then a message is a few minutes behind.
        seconds = number * 2 - (chance.uniform(0, 400) if chance.random() < 0.3 else 0)
        key, value = f"k{chance.randint(0, 2)}", chance.randint(1, 1000)
        feed.push("numbers", {"key": key, "value": value, "at": at(seconds=seconds)})
        wanted[key] += value * copies
    for key in ("k0", "k1", "k2"):
        feed.push("numbers", {"key": key, "value": 0, "at": at(hours=1)})
    summary = run(declared(window))
    found: Counter[str] = Counter()
    for key, payload in stored(feed, "sums"):
        found[key] += payload["total"]
    letters = [letter for _, letter in stored(feed, "sums.late")]
    for letter in letters:
        message = letter["payload"]
        found[message["key"]] += message["value"] * len(letter["missed"])
    assert len(letters) == summary.figures["late"] > 5
    assert found == wanted


# What is refused before anything runs, and what a plan shows.


def plain(**changes: str) -> str:
    """A stream that is right, but for the changes."""
    parts = {
        "key": "customer",
        "filter": "total > 0",
        "total": "double",
        "time": "created_at",
        "sum": "sum(total)",
        "size": "1 minute",
    } | changes
    return """
        name = "s"
        checkpoint = "checkpoint"
        key = "{key}"
        filter = "{filter}"
        [source]
        queue = "orders"
        [fields]
        customer = "string"
        total = "{total}"
        [window]
        type = "tumbling"
        size = "{size}"
        time = "{time}"
        [aggregations]
        turnover = "{sum}"
        [sink]
        queue = "turnover"
    """.format(**parts)


WRONG = {
    "filter": ("totl > 0", "with name `totl` cannot be resolved"),
    "key": ("customer +", "Syntax error"),
    "total": ("money", "Unsupported data type"),
    "time": ("total", "of type double; it has to be a timestamp"),
    "sum": ("total", "aggregat"),
}


@pytest.mark.parametrize("part", WRONG)
def test_an_expression_that_does_not_fit_is_named(run: Run, part: str) -> None:
    text, reason = WRONG[part]
    keys = {"sum": "aggregations.turnover", "total": "fields.total", "time": "window.time"}
    with pytest.raises(InvalidRequest) as caught:
        run(plain(**{part: text}), is_plan=True)
    sentence = str(caught.value)
    assert sentence.startswith(f"stream.toml: {keys.get(part, part)} is ")
    assert text in sentence and reason in sentence and "\n" not in sentence


@pytest.mark.parametrize("text", ["rand() > 0.5", "created_at < now()", "uuid() <> customer"])
def test_what_differs_from_run_to_run_is_refused(run: Run, text: str) -> None:
    with pytest.raises(InvalidRequest, match="differ"):
        run(plain(filter=text), is_plan=True)


def test_a_plan_shows_the_steps_and_columns_and_changes_nothing(
    run: Run, feed: Feed, tmp_path: Path
) -> None:
    summary = run(plain(), is_plan=True)
    assert summary.figures["window"] == "tumbling, 1 minute, created_at"
    assert summary.figures["place"] == "from its start"
    assert summary.tables["results"].rows == [
        ("window_start", "timestamp"),
        ("window_end", "timestamp"),
        ("key", "string"),
        ("turnover", "double"),
    ]
    assert not (tmp_path / "checkpoint").exists()


def test_a_checkpoint_is_for_one_definition(run: Run, feed: Feed) -> None:
    feed.push("orders", {"customer": "c1", "total": 1})
    run(plain())
    with pytest.raises(InvalidRequest, match=r"stream.toml: filter, window.size changed since"):
        run(plain(size="2 minutes", filter="total > 1"))
    # What does not change the meaning may change.
    run(plain().replace("[source]", 'trigger = "5 seconds"\n[source]\nmax_messages = 7'))


class MetricFamily:
    """A progress that keeps what it was told."""

    def __init__(self) -> None:
        self.last = ""

    def report(self, what: str, done: int | None = None, total: int | None = None) -> None:
        self.last = what


def test_a_stream_that_runs_on_names_what_it_waits_for_and_stops_when_told(
    spark: SparkSession, feed: Feed, database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "filter.toml"
    text = (EXAMPLES / file.name).read_text()
    file.write_text(text.replace("[source]", '[source]\nopen_transaction_warning = "0 s"'))
    job, told = StreamJob(load_definition(file), file.name, database_url), MetricFamily()
    feed.push("orders", {"customer": "c1", "total": 1000})
    held = feed.begin(server_settings={"application_name": "slow-report"})
    held.push("orders", {"customer": "c1", "total": 2000})
    feed.push("orders", {"customer": "c1", "total": 3000}, partition="other")

    def arrived(count: int) -> list[float]:
        def totals() -> list[float] | None:
            found = [payload["total"] for _, payload in stored(feed, "large-orders")]
            return found if len(found) >= count else None

        return wait_until(totals, timeout_s=SOON_S, what=f"{count} results") or []

    def watch() -> list[list[float]]:
        try:
            wait_until(lambda: "slow-report" in told.last, timeout_s=SOON_S, what="the reason")
            before = arrived(1)
            held.commit()
            return [before, arrived(3)]
        finally:
            job.stop.set()

    with ThreadPoolExecutor(1) as threads:
        watching = threads.submit(watch)
        # In this thread: Spark finds sinks by the session of the thread.
        summary = job.run(spark, told)
        before, after = watching.result(SOON_S)
    assert before == [1000], "nothing above an open transaction is read"
    assert sorted(after) == [1000, 2000, 3000]
    assert summary.figures["messages"] == 3
    assert not spark.streams.active


@pytest.mark.jobs
@pytest.mark.slow
def test_the_command_runs_until_a_signal_and_prints_what_it_did(
    feed: Feed, database_url: str, tmp_path: Path
) -> None:
    file = shutil.copy(EXAMPLES / "filter.toml", tmp_path)
    feed.push("orders", {"customer": "c1", "total": 1000})
    command = [sys.executable, "-m", "queenmq", "pipeline", "stream", str(file)]
    quick = ["--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    process = subprocess.Popen(
        [*command, *quick, "--master", "local[2]", "--database-url", database_url, "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(
            lambda: stored(feed, "large-orders") or process.poll() is not None,
            timeout_s=2 * SOON_S,
            what="a first result",
        )
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=SOON_S)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, errors
    summary = json.loads(out)
    assert (summary["job"], summary["figures"]["messages"]) == ("stream", 1)


def test_a_stream_that_cannot_go_on_says_why(run: Run) -> None:
    with pytest.raises(StreamFailed, match=r"^stream s stopped: no queue orders; create it"):
        run(plain())
