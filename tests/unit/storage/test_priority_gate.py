"""The gate in front of the connections: order, ageing, and that no permit is ever lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queenmq.storage.connection.priority_gate import PriorityGate


class Clock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Callers:
    """Tasks that enter a gate and leave when told; the order in which they got in."""

    def __init__(self, gate: PriorityGate) -> None:
        self.gate = gate
        self.entered: list[str] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._done: dict[str, asyncio.Event] = {}

    async def start(self, name: str, priority: int) -> None:
        self._done[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._call(name, priority))
        await turn()

    async def _call(self, name: str, priority: int) -> None:
        await self.gate.enter(priority)
        self.entered.append(name)
        try:
            await self._done[name].wait()
        finally:
            self.gate.leave()

    async def finish(self, name: str) -> None:
        self._done[name].set()
        await self._tasks[name]
        await turn()

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.gather(self._tasks[name], return_exceptions=True)
        await turn()

    async def drain(self) -> list[str]:
        """Let one after the other finish; the order of all."""
        place = 0
        while place < len(self.entered):
            await self.finish(self.entered[place])
            place += 1
        return self.entered


async def turn(passes: int = 3) -> None:
    """Let everything that can run now do so; a single pass stops half-way."""
    for _ in range(passes):
        passed = asyncio.Event()
        asyncio.get_running_loop().call_soon(passed.set)
        await passed.wait()


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def start_all(callers: Callers, *named: tuple[str, int]) -> None:
    for name, priority in named:
        await callers.start(name, priority)


async def test_a_free_permit_is_taken_at_once(clock: Clock) -> None:
    gate = PriorityGate(2, clock=clock)
    assert gate.try_enter()
    # A coroutine that waits for nothing ends at its first step.
    with pytest.raises(StopIteration):
        gate.enter(10).send(None)
    assert (gate.in_use, gate.waiting) == (2, 0)
    assert not gate.try_enter()
    gate.leave()
    gate.leave()
    assert (gate.in_use, gate.waiting) == (0, 0)


async def test_the_most_urgent_goes_first(clock: Clock) -> None:
    callers = Callers(PriorityGate(1, clock=clock))
    await start_all(callers, ("first", 10), ("pop", 6), ("event", 1), ("push", 5), ("ack", 3))
    assert (callers.gate.in_use, callers.gate.waiting) == (1, 4)
    assert await callers.drain() == ["first", "event", "ack", "push", "pop"]
    assert (callers.gate.in_use, callers.gate.waiting) == (0, 0)


async def test_equals_go_in_the_order_of_arrival(clock: Clock) -> None:
    callers = Callers(PriorityGate(1, clock=clock))
    names = [f"push-{number}" for number in range(20)]
    for name in names:
        await callers.start(name, 5)
        clock.now += 0.0 if name.endswith("1") else 1.0
    assert await callers.drain() == names


async def test_a_second_of_waiting_is_worth_a_level(clock: Clock) -> None:
    callers = Callers(PriorityGate(1, clock=clock))
    await start_all(callers, ("first", 1), ("background", 8))
    clock.now = 2_999
    await callers.start("push before three seconds", 5)
    clock.now = 3_001
    await callers.start("push after three seconds", 5)
    assert await callers.drain() == [
        "first",
        "push before three seconds",
        "background",
        "push after three seconds",
    ]


async def test_nobody_starves_behind_a_stream_of_urgent_calls(clock: Clock) -> None:
    callers = Callers(PriorityGate(1, clock=clock))
    await start_all(callers, ("running", 1), ("analytics", 10))
    for number in range(100):
        clock.now += 500
        await callers.start(f"event-{number}", 1)
        await callers.finish(callers.entered[-1])
        if "analytics" in callers.entered:
            break
    assert "analytics" in callers.entered
    assert clock.now <= 10_000, "nine levels are nine seconds"
    await callers.drain()


async def test_a_permit_is_handed_on_and_not_taken_by_a_newcomer(clock: Clock) -> None:
    callers = Callers(PriorityGate(1, clock=clock))
    await start_all(callers, ("running", 5), ("waiting", 10))
    callers._done["running"].set()
    await callers._tasks["running"]
    # The one who waits has the permit, although it has not run yet.
    assert not callers.gate.try_enter()
    assert callers.gate.in_use == 1
    assert await callers.drain() == ["running", "waiting"]


async def test_a_waiter_that_is_cancelled_leaves_no_trace(clock: Clock) -> None:
    callers = Callers(PriorityGate(1, clock=clock))
    await start_all(callers, ("running", 5), ("gone", 1), ("waiting", 5))
    await callers.cancel("gone")
    assert (callers.gate.in_use, callers.gate.waiting) == (1, 1)
    assert await callers.drain() == ["running", "waiting"]
    assert callers.gate.in_use == 0


@pytest.mark.parametrize("is_cancelled_first", [True, False])
async def test_cancelled_in_the_moment_of_its_turn_it_passes_the_permit_on(
    clock: Clock, is_cancelled_first: bool
) -> None:
    gate = PriorityGate(1, clock=clock)
    assert gate.try_enter()
    gone = asyncio.create_task(gate.enter(1))
    waiting = asyncio.create_task(gate.enter(5))
    await turn()
    steps: list[Callable[[], object]] = [gone.cancel, gate.leave]
    for step in steps if is_cancelled_first else reversed(steps):
        step()
    await asyncio.gather(gone, return_exceptions=True)
    assert gone.cancelled()
    await waiting
    assert (gate.in_use, gate.waiting) == (1, 0)
    gate.leave()
    assert gate.in_use == 0


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "enter", "leave", "cancel", "turn", "time"]),
        st.integers(0, 30),
    ),
    max_size=80,
)


@settings(deadline=None)
@given(st.integers(1, 4), STEPS)
def test_permits_are_never_lost_nor_more_than_there_are(
    slots: int, steps: list[tuple[str, int]]
) -> None:
    asyncio.run(_fuzz(slots, steps))


async def _fuzz(slots: int, steps: list[tuple[str, int]]) -> None:
    clock = Clock()
    gate = PriorityGate(slots, clock=clock)
    tasks: list[asyncio.Task[None]] = []
    inside: set[int] = set()
    events: dict[int, asyncio.Event] = {}

    async def call(number: int, priority: int) -> None:
        await gate.enter(priority)
        inside.add(number)
        assert len(inside) <= slots
        try:
            await events[number].wait()
        finally:
            inside.discard(number)
            gate.leave()

    for action, value in steps:
        if action == "enter":
            number = len(tasks)
            events[number] = asyncio.Event()
            tasks.append(asyncio.create_task(call(number, value % 11)))
        elif action == "time":
            clock.now += value * 100
        elif action == "turn":
            await turn(1 + value % 3)
        elif tasks and action == "leave":
            events[value % len(tasks)].set()
        elif tasks:
            tasks[value % len(tasks)].cancel()
        assert gate.in_use <= slots
        assert len(inside) <= gate.in_use
    await turn()
    # Once all is quiet, a permit is free only if nobody waits for it.
    assert gate.in_use == len(inside)
    assert not gate.waiting or gate.in_use == slots
    for event in events.values():
        event.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(one is None or isinstance(one, asyncio.CancelledError) for one in found), found
    assert (gate.in_use, gate.waiting) == (0, 0)
