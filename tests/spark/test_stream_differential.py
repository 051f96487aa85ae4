"""One stream, by Spark and by our client: the same windows, those of plain Python."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from queenmq import Queen
from queenmq.client.streams.windows import to_iso, to_ms
from queenmq.spark.jobs.job import Silent
from queenmq.spark.jobs.stream import StreamJob
from queenmq.spark.streams.definition import load_definition
from tests.support.broker import SOON_S, Api, BrokerProcess
from tests.support.feed import Feed
from tests.support.stream_reference import Event, Windows, fixed_windows, session_windows
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.timeout(600)

T0 = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
_FILE = """
name = "by-spark-{kind}"
checkpoint = "checkpoints/{kind}"
key = "customer"
[source]
queue = "orders"
[fields]
customer = "string"
v = "bigint"
at = "timestamp"
[window]
type = "{kind}"
{shape}
time = "at"
watermark = "0 seconds"
[aggregations]
count = "count(*)"
sum = "sum(v)"
[sink]
queue = "spark-{kind}"
"""
_SHAPES = {
    "tumbling": 'size = "5 seconds"',
    "sliding": 'size = "6 seconds"\nslide = "2 seconds"',
    "session": 'gap = "3 seconds"',
}


def _events() -> list[Event]:
    rng = random.Random(11)
    time, events = T0, []
    for _ in range(80):
        time += rng.choice((1, 400, 1_900, 7_000))
        events.append(Event(time, f"c{rng.randrange(3)}", rng.randrange(100)))
    return events


def _reference(kind: str, events: list[Event]) -> Windows:
    if kind == "tumbling":
        return fixed_windows(events, size_ms=5_000)
    if kind == "sliding":
        return fixed_windows(events, size_ms=6_000, slide_ms=2_000)
    return session_windows(events, gap_ms=2_999)


def _by_spark(spark: SparkSession, url: str, folder: Path, feed: Feed, kind: str) -> Windows:
    file = folder / f"{kind}.toml"
    file.write_text(_FILE.format(kind=kind, shape=_SHAPES[kind]))
    StreamJob(load_definition(file), file.name, url, is_once=True).run(spark, Silent())
    rows = feed.rows(
        "SELECT m.payload::text FROM queen.messages m JOIN queen.queues q ON q.id = m.queue_id"
        " WHERE q.name = $1",
        f"spark-{kind}",
    )
    found = [json.loads(row["payload"]) for row in rows]
    windows = {
        (one["key"], to_ms(one["window_start"]) or 0): (one["count"], one["sum"]) for one in found
    }
    assert len(windows) == len(found), "a window came twice"
    return windows


async def _by_client(url: str, kind: str, count: int) -> Windows:
    def shown(value: Any, ctx: Any) -> Any:
        return {"key": ctx["key"], "start": ctx["windowStart"], **value}

    async with Queen(url) as queen:
        stream = (
            queen.stream("orders").map(lambda m: m["data"]).key_by(lambda m: m["data"]["customer"])
        )
        how: Any = {"event_time": lambda m: m["data"]["at"]}
        if kind == "tumbling":
            stream = stream.window_tumbling(5, **how)
        elif kind == "sliding":
            stream = stream.window_sliding(6, 2, **how)
        else:
            # Here a gap ends a session when it is longer, in Spark when it is as long.
            stream = stream.window_session(2.999, **how)
        stream = stream.aggregate({"count": lambda m: 1, "sum": lambda m: m["v"]}).map(shown)
        api, found = Api(url), []

        async def is_full() -> bool:
            found.extend(await api.data(f"client-{kind}", batch=1000, autoAck=True))
            return len(found) >= count

        async with await stream.to(f"client-{kind}").run(kind, batch_size=9, max_wait_millis=50):
            await wait_until_async(is_full, timeout_s=SOON_S, what=f"{count} windows")
        await api.close()
    windows = {(one["key"], one["start"]): (one["count"], one["sum"]) for one in found}
    assert len(windows) == len(found), "a window came twice"
    return windows


@pytest.mark.parametrize(
    "kind",
    ["tumbling", *(pytest.param(kind, marks=pytest.mark.jobs) for kind in ("sliding", "session"))],
)
def test_spark_and_client_make_the_same_windows(
    spark: SparkSession,
    database_url: str,
    start_broker: Callable[..., BrokerProcess],
    feed: Feed,
    tmp_path: Path,
    kind: str,
) -> None:
    events = _events()
    for event in [*events, Event(T0 + 86_400_000, "end", 0)]:
        payload = {"customer": event.key, "v": event.value, "at": to_iso(event.at_ms)}
        feed.push("orders", payload, partition="any")
    broker = start_broker()
    expected = _reference(kind, events)
    assert asyncio.run(_by_client(broker.url, kind, len(expected))) == expected
    assert _by_spark(spark, database_url, tmp_path, feed, kind) == expected
