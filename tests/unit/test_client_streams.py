"""Streams on lists of messages, without a broker: windows, gates, hashes, mistakes."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from queen import Stream as OfficialStream
from queen import sliding_window_gate as official_sliding
from queen import token_bucket_gate as official_bucket

from queenmq import Queen, Stream, sliding_window_gate, token_bucket_gate
from queenmq.client.streams.steps import MessageFailed
from queenmq.client.streams.testing import START_MS, StreamResult, run_on_messages
from tests.support.stream_reference import Event, Windows, fixed_windows, session_windows
from tests.tidy.repo import ROOT

AGGREGATE = {"count": lambda m: 1, "sum": lambda m: m["v"]}
SECOND = 1_000


def _events(seed: int) -> list[Event]:
    """Events in order of time, with bursts and quiet spells, and one that closes all windows."""
    rng = random.Random(seed)
    time, events = START_MS, []
    for _ in range(150):
        time += rng.choice((1, 40, 700, 2_500, 2_500, 60_000))
        events.append(Event(time, f"user-{rng.randrange(4)}", rng.randrange(100)))
    return [*events, Event(time + 30 * 86_400_000, "end", 0)]


def _messages(events: list[Event]) -> list[dict[str, Any]]:
    return [{"data": {"t": e.at_ms, "user": e.key, "v": e.value}} for e in events]


def _keyed() -> Stream:
    return Stream.from_("source").map(lambda m: m["data"]).key_by(lambda m: m["data"]["user"])


def _windows_of(result: StreamResult) -> Windows:
    found = {(one["user"], one["start"]): (one["count"], one["sum"]) for one in result.payloads}
    assert len(found) == len(result.payloads), "a window came twice"
    return found


def _end(stream: Stream) -> Stream:
    def shown(value: Any, ctx: Any) -> Any:
        return {"user": ctx["key"], "start": ctx["windowStart"], **value}

    return stream.aggregate(AGGREGATE).map(shown).to("sink")


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
@pytest.mark.parametrize("seed", range(5))
async def test_windows_are_those_of_plain_python(seed: int, batch_size: int) -> None:
    events = _events(seed)
    how: dict[str, Any] = {"event_time": lambda m: m["data"]["t"]}
    week = [e._replace(at_ms=e.at_ms - 4 * 86_400_000) for e in events]
    cases = [
        (_keyed().window_tumbling(5, **how), fixed_windows(events, size_ms=5 * SECOND)),
        (
            _keyed().window_sliding(6, 2, **how),
            fixed_windows(events, size_ms=6 * SECOND, slide_ms=2 * SECOND),
        ),
        (_keyed().window_cron("hour", **how), fixed_windows(events, size_ms=3_600 * SECOND)),
        (
            _keyed().window_cron("week", **how),
            {
                (key, start + 4 * 86_400_000): value
                for (key, start), value in fixed_windows(week, size_ms=7 * 86_400_000).items()
            },
        ),
        (_keyed().window_session(2, **how), session_windows(events, gap_ms=2 * SECOND)),
    ]
    for stream, expected in cases:
        result = await run_on_messages(_end(stream), _messages(events), batch_size=batch_size)
        # The last event holds its own windows open.
        closed = {place: value for place, value in expected.items() if place[0] != "end"}
        assert _windows_of(result) == closed


async def test_lateness_is_counted_from_the_latest_event() -> None:
    times = [10_000, 14_000, 11_500, 16_000, 9_000, 20_000]
    messages = [{"data": {"t": START_MS + t, "user": "u", "v": 1}} for t in times]
    how: dict[str, Any] = {"event_time": lambda m: m["data"]["t"], "allowed_lateness": 3}
    stream = _end(_keyed().window_tumbling(1, **how))
    dropped = await run_on_messages(stream, messages, batch_size=1)
    assert dropped.late == 1
    assert [one["start"] - START_MS for one in dropped.payloads] == [10_000, 11_000, 14_000, 16_000]
    stream = _end(_keyed().window_tumbling(1, **how, on_late="include"))
    included = await run_on_messages(stream, messages, batch_size=1)
    assert included.late == 0
    assert 9_000 in [one["start"] - START_MS for one in included.payloads]
    times_of = [lambda m: datetime.fromtimestamp(m["data"]["t"] / 1000, UTC)]
    times_of.append(lambda m: times_of[0](m).isoformat())
    for time_of in times_of:
        stream = _end(_keyed().window_tumbling(1, **{**how, "event_time": time_of}))
        same = await run_on_messages(stream, messages, batch_size=1)
        assert same.payloads == dropped.payloads


async def test_quiet_windows_close_by_the_clock() -> None:
    stream = (
        Stream.from_("s")
        .window_tumbling(10, grace_period=2)
        .reduce(lambda total, m: (total or 0) + m)
    )
    messages = [{"data": n, "partition": f"p{n % 2}"} for n in range(6)]
    early = await run_on_messages(stream.to("sink"), messages, flush_at_ms=START_MS + 11_999)
    assert early.pushes == []
    late = await run_on_messages(stream.to("sink"), messages, flush_at_ms=START_MS + 12_000)
    assert [(one["partition"], one["payload"]) for one in late.pushes] == [
        ("p0", {"value": 6}),
        ("p1", {"value": 9}),
    ]
    assert late.state == {"p0": {}, "p1": {}}


async def test_stateless_steps_see_the_message_and_later_ones_the_value() -> None:
    seen: list[Any] = []

    async def slow(m: Any) -> Any:
        return m["data"] * 10

    stream = (
        Stream.from_("s")
        .filter(lambda m: m["data"] != 2)
        .map(slow)
        .flat_map(lambda m, ctx: [m["data"], -m["data"]])
        .foreach(seen.append)
    )
    await run_on_messages(stream, [1, 2, 3])
    assert seen == [1, -1, 3, -3]
    result = await run_on_messages(
        Stream.from_("s").to("sink", partition=lambda v: f"p{v % 2}"), [1, {"data": 2}]
    )
    assert [one["partition"] for one in result.pushes] == ["p1", "p0"]


async def test_a_gate_takes_messages_whole_and_goes_on_later() -> None:
    stream = Stream.from_("s").filter(lambda m: m["data"] != 3).flat_map(lambda m: [m["data"]] * 2)
    gated = stream.gate(token_bucket_gate(capacity=5, refill_per_sec=10)).to("sink")
    once = await run_on_messages(gated, list(range(6)), is_gate_waiting=False)
    assert [one["value"] for one in once.payloads] == [0, 0, 1, 1]
    assert [one.data for one in once.denied] == [2, 3, 4, 5]
    assert once.state["Default"]["partition-Default"]["consumedTotal"] == 4
    done = await run_on_messages(gated, list(range(6)))
    assert [one["value"] for one in done.payloads] == [0, 0, 1, 1, 2, 2, 4, 4, 5, 5]
    assert done.denied == []


def test_gates_decide_as_the_official_ones() -> None:
    class Context:
        def __init__(self) -> None:
            self.state: dict[str, Any] = {}
            self.stream_time_ms = 0

    rng = random.Random(7)
    for ours, theirs in [
        (token_bucket_gate(5, 3, lambda m: m), official_bucket(5, 3, lambda m: m)),
        (sliding_window_gate(6, 2, lambda m: m), official_sliding(6, 2, lambda m: m)),
    ]:
        a, b = Context(), Context()
        for _ in range(500):
            a.stream_time_ms = b.stream_time_ms = a.stream_time_ms + rng.randrange(900)
            cost = rng.choice((0, 1, 1, 2, 7))
            assert ours(cost, a) == theirs(cost, b)  # type: ignore[arg-type]
        assert a.state == b.state


def _chains(kind: Any, queue: Any) -> list[Any]:
    """The same streams with either SDK."""
    begin = kind.from_(queue)

    def f(*_: Any) -> Any:
        return None

    return [
        begin.map(f).filter(f).flat_map(f).to(queue),
        begin.key_by(f).window_tumbling(seconds=60).aggregate({"count": f, "avg": f}).foreach(f),
        begin.window_tumbling(seconds=0.5, grace_period=1.5, idle_flush_ms=9).reduce(f, 0),
        begin.window_sliding(size=60, slide=20, event_time=f, allowed_lateness=2).reduce(f),
        begin.window_session(gap=3, on_late="include", event_time=f).reduce(f, {}),
        begin.window_cron(every="hour").aggregate({"max": f}).map(f).to(queue),
        begin.gate(f).to(queue, partition="p"),
        begin.windowTumbling(seconds=5, gracePeriod=1, idleFlushMs=7, eventTime=f).reduce(f),
    ]


def test_a_chain_has_the_hash_of_the_official_sdk() -> None:
    queue = Queen("http://127.0.0.1:1").queue("q é")

    class Named:
        queue_name = "q é"

    ours = [one.config_hash for one in _chains(Stream, queue)]
    theirs = [one._compile().config_hash for one in _chains(OfficialStream, Named())]
    assert ours == theirs
    assert len(set(ours)) == len(ours)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda s: s.to("a").map(id), "last step"),
        (lambda s: s.reduce(max), "needs a window"),
        (lambda s: s.window_tumbling(1).window_tumbling(1), "one window"),
        (lambda s: s.key_by(id).key_by(id), "one key_by"),
        (lambda s: s.window_tumbling(1).reduce(max).key_by(id), "before"),
        (lambda s: s.window_tumbling(1).gate(id), "do not fit"),
        (lambda s: s.gate(id).window_tumbling(1), "do not fit"),
        (lambda s: s.window_session(1), "needs a reduce"),
        (lambda s: s.window_tumbling(0), "above 0"),
        (lambda s: s.window_sliding(5, 2), "multiple"),
        (lambda s: s.window_cron("month"), "second|minute"),
        (lambda s: s.window_tumbling(1, on_late="keep"), "on_late"),
        (lambda s: s.window_tumbling(1, allowed_lateness=-1), "allowed_lateness"),
        (lambda s: s.window_tumbling(1, event_time=5), "event_time"),
        (lambda s: s.map("upper"), "takes a function"),
        (lambda s: s.aggregate({}), "at least one"),
        (lambda s: s.to(""), "names no queue"),
        (lambda s: s.gate(token_bucket_gate(0, 1)), "above 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_are_named(make: Any, word: str) -> None:
    with pytest.raises((ValueError, TypeError), match=word.replace("|", r"\|")):
        make(Stream.from_("s")).chain()


async def test_a_failing_function_names_its_message() -> None:
    def fail(m: Any) -> Any:
        return 1 / (m["data"] - 2)

    window = Stream.from_("s").window_tumbling(100)
    for stream in (
        Stream.from_("s").map(fail),
        Stream.from_("s").key_by(fail),
        window.reduce(lambda total, v: 1 / (v - 2)),
        Stream.from_("s").gate(lambda v, ctx: 1 / (v - 2) < 9),
    ):
        with pytest.raises(MessageFailed, match="ZeroDivisionError") as caught:
            await run_on_messages(stream, [0, 1, 2, 3])
        assert caught.value.place == 2


async def test_the_test_of_the_guide_passes() -> None:
    guide = (ROOT / "docs" / "streams.md").read_text()
    (code,) = [text for text in re.findall(r"```python\n(.*?)```", guide, re.S) if "test_" in text]
    names: dict[str, Any] = {}
    exec(code, names)
    await names["test_revenue"]()
