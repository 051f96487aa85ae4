"""The official streaming SDK, unchanged, against our broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from queen import Queen, Stream, token_bucket_gate
from queen.streams.runtime.register import StreamsConfigHashMismatch, register_query
from queen.streams.runtime.streams_http_client import StreamsHttpClient

from tests.conformance.shorthand import drain
from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.stream_reference import (
    Event,
    Windows,
    fixed_windows,
    session_windows,
)
from tests.support.waiting import wait_until_async

#: 2026-01-01, a Thursday.
T0 = 1_767_225_600_000
SECOND = 1_000


def _events(partition: int) -> list[Event]:
    return [
        Event(T0 + n * 700 + partition, f"user-{n % 3}", n * (partition + 1)) for n in range(40)
    ]


async def _push_events(api: Api, queue: str, partitions: int) -> list[Event]:
    """Events in order of time, and one a day later, which closes all windows before it."""
    events: list[Event] = []
    for number in range(partitions):
        mine = _events(number)
        last = Event(T0 + 86_400_000, "end", 0)
        payloads = [{"t": e.at_ms, "user": f"{e.key}/{number}", "v": e.value} for e in mine]
        payloads.append({"t": last.at_ms, "user": last.key, "v": last.value})
        await api.push(queue, *payloads, partition=f"p{number}")
        events += [e._replace(key=f"{e.key}/{number}") for e in mine]
    return events


async def _windows(api: Api, sink: str, count: int) -> Windows:
    """The windows in a sink, when it has so many."""
    found: list[Any] = []

    async def is_full() -> bool:
        found.extend(await drain(api, sink))
        return len(found) >= count

    await wait_until_async(is_full, timeout_s=SOON_S, what=f"{count} windows in {sink}")
    windows = {(one["user"], one["start"]): (one["count"], one["sum"]) for one in found}
    assert len(windows) == len(found), "a window came twice"
    return windows


def _shown(value: dict[str, Any], ctx: dict[str, Any]) -> dict[str, Any]:
    return {"user": ctx["key"], "start": ctx["windowStart"], **value}


AGGREGATE = {"count": lambda m: 1, "sum": lambda m: m["v"]}


@pytest.mark.parametrize("kind", ["tumbling", "session"])
async def test_windows_are_those_of_plain_python(
    client: Queen, broker: BrokerProcess, api: Api, kind: str
) -> None:
    source, sink = unique(), unique()
    events = await _push_events(api, source, 3)
    how: dict[str, Any] = {"event_time": lambda m: m["data"]["t"], "idle_flush_ms": 50}
    stream = (
        Stream.from_(client.queue(source)).map(lambda m: m["data"]).key_by(
            lambda m: m["data"]["user"]
        )
    )  # fmt: skip
    if kind == "tumbling":
        stream = stream.window_tumbling(seconds=5, **how)
        expected = fixed_windows(events, size_ms=5 * SECOND)
    else:
        # One session per user: where two of them close in one batch, the SDK leaves the first one's
        # state behind and emits it once more.
        stream = stream.window_session(gap=3, **how)
        expected = session_windows(events, gap_ms=3 * SECOND)
    stream = stream.aggregate(AGGREGATE).map(_shown).to(client.queue(sink))
    errors: list[Any] = []
    # Two workers, small batches: they share the partitions.
    runners = [
        await stream.run(
            query_id=sink, url=broker.url, batch_size=7, max_partitions=2, max_wait_millis=50,
            on_error=lambda error, where: errors.append((error, where)),
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        assert await _windows(api, sink, len(expected)) == expected
    finally:
        await asyncio.gather(*(runner.stop() for runner in runners))
    assert sum(runner.metrics()["messagesTotal"] for runner in runners) == 3 * 41
    shown = (await api.http.get(f"/api/v1/streams/{sink}")).json()
    assert (shown["totalLag"], shown["sinkQueue"]) == (0, sink)
    assert [where for _, where in errors if where["phase"] != "flush"] == []


async def test_processing_time_windows_close_when_nothing_comes(
    client: Queen, broker: BrokerProcess, api: Api
) -> None:
    source, sink = unique(), unique()
    await api.push(source, *range(10), partition="p")
    runner = await (
        Stream.from_(client.queue(source))
        .map(lambda m: {"v": m["data"]})
        .window_tumbling(seconds=0.2, idle_flush_ms=50)
        .reduce(lambda acc, m: {"sum": acc["sum"] + m["v"]}, {"sum": 0})
        .to(client.queue(sink))
        .run(query_id=unique(), url=broker.url, max_wait_millis=50)
    )
    found: list[Any] = []

    async def total() -> bool:
        found.extend(await drain(api, sink))
        return sum(one["sum"] for one in found) >= 45

    try:
        await wait_until_async(total, timeout_s=SOON_S, what="all windows to close")
    finally:
        await runner.stop()
    assert sum(one["sum"] for one in found) == 45


async def test_a_gate_lets_everything_through_in_order(
    client: Queen, broker: BrokerProcess, api: Api
) -> None:
    source, sink = unique(), unique()
    await api.configure(source, leaseTime=1)
    await api.push(source, *range(12), partition="p")
    gate = token_bucket_gate(capacity=5, refill_per_sec=40)
    runner = await (
        Stream.from_(client.queue(source))
        .gate(gate)
        .to(client.queue(sink))
        .run(query_id=unique(), url=broker.url, max_wait_millis=50)
    )
    found: list[Any] = []

    async def is_full() -> bool:
        found.extend(one["value"] for one in await drain(api, sink))
        return len(found) >= 12

    try:
        await wait_until_async(is_full, timeout_s=SOON_S, what="all messages to pass")
    finally:
        await runner.stop()
    assert found == list(range(12))
    assert runner.metrics()["gateDenialsTotal"] > 0


async def test_stateless_steps_effects_and_another_configuration(
    client: Queen, broker: BrokerProcess, api: Api
) -> None:
    source, sink, name = unique(), unique(), unique()
    await api.push(source, *range(6), partition="p")
    steps = (
        Stream.from_(client.queue(source))
        .filter(lambda m: m["data"] % 2 == 0)
        .flat_map(lambda m: [m["data"], m["data"] + 100])
    )
    runner = await steps.to(client.queue(sink), partition=lambda v: f"p{v % 4}").run(
        query_id=name, url=broker.url, max_wait_millis=50
    )
    found: list[Any] = []

    async def is_full() -> bool:
        found.extend(one["value"] for one in await drain(api, sink))
        return len(found) >= 6

    try:
        await wait_until_async(is_full, timeout_s=SOON_S, what="the sink to fill")
    finally:
        await runner.stop()
    assert sorted(found) == [0, 2, 4, 100, 102, 104]
    seen: list[Any] = []
    effects = steps.foreach(lambda value: seen.append(value))
    # Not by run(), which leaves its connection open when it fails.
    http = StreamsHttpClient(broker.url)
    with pytest.raises(StreamsConfigHashMismatch, match="config_hash mismatch"):
        await register_query(http, name, source, effects._compile().config_hash)
    await http.close()
    runner = await effects.run(query_id=unique(), url=broker.url, max_wait_millis=50)
    try:
        await wait_until_async(lambda: len(seen) >= 6, timeout_s=SOON_S, what="the effects")
    finally:
        await runner.stop()
    assert seen == [0, 100, 2, 102, 4, 104]
