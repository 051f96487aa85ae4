"""Our client's streams on a broker, beside the official SDK and plain Python."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from queen import Queen as OfficialQueen
from queen import Stream as OfficialStream

from queenmq import Queen, Stream, token_bucket_gate
from queenmq.client.streams.broker import StreamRefused
from tests.conformance.shorthand import drain
from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.faulty_proxy import faulty_proxy
from tests.support.stream_reference import Event, Windows, fixed_windows, session_windows
from tests.support.waiting import wait_until_async

T0 = 1_767_225_600_000
AGGREGATE = {"count": lambda m: 1, "sum": lambda m: m["v"], "max": lambda m: m["v"]}


@pytest.fixture
async def queen(broker: BrokerProcess) -> AsyncIterator[Queen]:
    async with Queen(broker.url) as client:
        yield client


async def _push(api: Api, queue: str, *, seed: int, gaps: tuple[int, ...]) -> list[Event]:
    rng = random.Random(seed)
    events: list[Event] = []
    for number in range(3):
        time, mine = T0, []
        for _ in range(60):
            time += rng.choice(gaps)
            mine.append(Event(time, f"user-{rng.randrange(3)}/{number}", rng.randrange(100)))
        events += mine
        mine.append(Event(T0 + 86_400_000, "end", 0))
        payloads = [{"t": e.at_ms, "user": e.key, "v": e.value} for e in mine]
        await api.push(queue, *payloads, partition=f"p{number}")
    return events


async def _collect(api: Api, sink: str, count: int) -> list[Any]:
    found: list[Any] = []

    async def is_full() -> bool:
        found.extend(await drain(api, sink))
        return len(found) >= count

    await wait_until_async(is_full, timeout_s=SOON_S, what=f"{count} messages in {sink}")
    return found


def _windows(found: list[Any]) -> Windows:
    windows = {(one["user"], one["start"]): (one["count"], one["sum"]) for one in found}
    assert len(windows) == len(found), "a window came twice"
    return windows


def _program(kind: Any, client: Any, source: str, sink: str, window: str) -> Any:
    """One program for either SDK: nothing but the import differs."""

    def shown(value: Any, ctx: Any) -> Any:
        return {"user": ctx["key"], "start": ctx["windowStart"], **value}

    how: dict[str, Any] = {"event_time": lambda m: m["data"]["t"], "idle_flush_ms": 50}
    stream = kind.from_(client.queue(source)).map(lambda m: m["data"])
    stream = stream.key_by(lambda m: m["data"]["user"])
    if window == "tumbling":
        stream = stream.window_tumbling(seconds=5, **how)
    elif window == "sliding":
        stream = stream.window_sliding(size=6, slide=2, **how)
    elif window == "session":
        stream = stream.window_session(gap=20, **how)
    else:
        stream = stream.window_cron(every="minute", **how)
    return stream.aggregate(AGGREGATE).map(shown).to(client.queue(sink))


def _reference(window: str, events: list[Event]) -> Windows:
    if window == "tumbling":
        return fixed_windows(events, size_ms=5_000)
    if window == "sliding":
        return fixed_windows(events, size_ms=6_000, slide_ms=2_000)
    if window == "session":
        return session_windows(events, gap_ms=20_000)
    return fixed_windows(events, size_ms=60_000)


@pytest.mark.parametrize("window", ["tumbling", "sliding", "session", "cron"])
async def test_both_sdks_make_the_windows_of_plain_python(
    queen: Queen, api: Api, broker: BrokerProcess, window: str
) -> None:
    source, ours, theirs = unique(), unique("ours"), unique("theirs")
    # No user is quiet for as long as a session may be; see the tests of the official SDK.
    events = await _push(api, source, seed=3, gaps=(1, 300, 2_100))
    expected = _reference(window, events)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        async with OfficialQueen(broker.url) as official:
            runners = [
                await _program(kind, client, source, sink, window).run(
                    query_id=sink, url=broker.url, batch_size=7, max_wait_millis=50
                )
                for kind, client, sink in (
                    (Stream, queen, ours),
                    (Stream, queen, ours),
                    (OfficialStream, official, theirs),
                )
            ]
            try:
                found = [await _collect(api, sink, len(expected)) for sink in (ours, theirs)]
            finally:
                await asyncio.gather(*(runner.stop() for runner in runners))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert _windows(found[0]) == _windows(found[1]) == expected
    by_place = [{(one["user"], one["start"]): one for one in some} for some in found]
    assert by_place[0] == by_place[1]


async def test_sessions_and_lost_answers(queen: Queen, api: Api, broker: BrokerProcess) -> None:
    """Many short sessions over a network that loses answers."""
    source, sink = unique(), unique()
    # The answer of a pop may be lost as well; its lease has to end.
    await api.configure(source, leaseTime=2)
    events = await _push(api, source, seed=5, gaps=(1, 700, 2_500, 9_000))
    expected = session_windows(events, gap_ms=2_000)

    def shown(value: Any, ctx: Any) -> Any:
        return {"user": ctx["key"], "start": ctx["windowStart"], **value}

    async with faulty_proxy(broker.url) as proxy, Queen(proxy.url, retry_attempts=5) as client:
        stream = (
            client.stream(source)
            .map(lambda m: m["data"])
            .key_by(lambda m: m["data"]["user"])
            .window_session(2, event_time=lambda m: m["data"]["t"], idle_flush_ms=50)
            .aggregate(AGGREGATE)
            .map(shown)
            .to(sink)
        )
        async with await stream.run(sink, batch_size=9, max_wait_millis=50) as runner:
            await wait_until_async(
                lambda: runner.metrics()["cyclesTotal"] > 2, timeout_s=SOON_S, what="some cycles"
            )
            proxy.lose_answers = 4
            found = await _collect(api, sink, len(expected))
    assert _windows(found) == expected


async def test_processing_time_windows_close_by_themselves(queen: Queen, api: Api) -> None:
    source, sink = unique(), unique()
    stream = (
        queen.stream(source)
        .window_tumbling(0.3, idle_flush_ms=50)
        .reduce(lambda total, value: total + value, 0)
        .to(sink)
    )
    async with await stream.run(unique(), max_wait_millis=50) as runner:
        await api.push(source, *range(10), partition="p")
        found: list[Any] = []

        async def is_all() -> bool:
            found.extend(one["value"] for one in await drain(api, sink))
            return sum(found) >= 45

        await wait_until_async(is_all, timeout_s=SOON_S, what="all windows to close")
        assert sum(found) == 45
        assert runner.metrics()["errorsTotal"] == 0


async def test_a_gate_goes_on_before_the_lease_ends(queen: Queen, api: Api) -> None:
    source, sink = unique(), unique()
    await api.push(source, *range(12), partition="p")
    stream = queen.stream(source).gate(token_bucket_gate(5, 20)).to(sink)
    async with await stream.run(unique(), max_wait_millis=50) as runner:
        found = await _collect(api, sink, 12)
        assert [one["value"] for one in found] == list(range(12))
        assert runner.metrics()["gateDenialsTotal"] > 0


async def test_a_message_that_fails_is_given_up_alone(queen: Queen, api: Api) -> None:
    source, sink, name = unique(), unique(), unique()
    await api.configure(source, retryLimit=1)
    await api.push(source, *range(6), partition="p")
    errors: list[Any] = []

    def halve(m: Any) -> Any:
        if m["data"] == 3:
            raise RuntimeError("three is odd")
        return m["data"]

    stream = queen.stream(source).map(halve).to(sink)
    how: Any = {"max_wait_millis": 50, "on_error": lambda *error: errors.append(error)}
    async with await stream.run(name, **how):
        found = await _collect(api, sink, 5)
    assert [one["value"] for one in found] == [0, 1, 2, 4, 5]
    (letter,) = await api.dead_letters(source)
    assert (letter["data"], "three is odd" in letter["errorMessage"]) == (3, True)
    assert [where["phase"] for _, where in errors] == ["message"] * 2
    with pytest.raises(StreamRefused, match="reset=True"):
        await queen.stream(source).filter(bool).to(sink).run(name)
    async with await queen.stream(source).filter(bool).to(sink).run(name, reset=True):
        pass
