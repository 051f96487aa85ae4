"""The load manager on a real event loop: it measures by itself, decides, and counts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from queenmq.engine.load.manager import Gauges, LoadManager
from queenmq.engine.load.metrics import register_load
from queenmq.engine.load.pressure import (
    Limits,
    LoadDecision,
    OperationType,
    SlotUse,
    make_thresholds,
)
from queenmq.errors import Overloaded
from queenmq.metrics.registry import Registry
from tests.support.waiting import wait_until_async

SOON_S = 30.0
PUSH, POP = OperationType.PUSH, OperationType.POP
ACKS = (OperationType.ACK_BATCH, OperationType.ACK_SINGLE)


@dataclass
class World:
    """The measurements of a manager."""

    slots: SlotUse = field(default_factory=lambda: SlotUse(16, 0, 0))
    fullness: float = 0.0
    oldest_ms: float = 0.0
    acks_waiting: int = 0
    operation_depth: int = 0
    drain_rate: float | None = None
    #: How often it was measured.
    looks: int = 0
    is_broken: bool = False
    #: What the next measures of fullness will be, before the one that stays.
    coming: list[float] = field(default_factory=list)
    #: All types that were ever seen engaged.
    engaged: set[OperationType] = field(default_factory=set)
    managers: list[LoadManager] = field(default_factory=list)

    def look(self) -> SlotUse:
        self.looks += 1
        self.engaged.update(*(manager.pressure.engaged for manager in self.managers))
        if self.is_broken:
            raise RuntimeError("this measure broke")
        return self.slots

    def manager(self, *, is_enabled: bool = True, lag_ms: float = 1e9) -> LoadManager:
        """A manager of this world; one that is late by less than a week is not under load."""
        gauges = Gauges(
            slots=self.look,
            fullness=lambda: self.coming.pop(0) if self.coming else self.fullness,
            oldest_ms=lambda: self.oldest_ms,
            acks_waiting=lambda: self.acks_waiting,
            operation_depth=lambda: self.operation_depth,
            drain_rate=lambda: self.drain_rate,
        )
        made = LoadManager(
            gauges,
            thresholds=make_thresholds(),
            limits=Limits(lag_ms=lag_ms),
            release_ratio=0.7,
            is_enabled=is_enabled,
        )
        self.managers.append(made)
        return made

    async def settle(self, looks: int = 3) -> None:
        """Wait until it was measured that often."""
        goal = self.looks + looks
        await wait_until_async(lambda: self.looks >= goal, timeout_s=SOON_S, what="measures")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    for manager in made.managers:
        await manager.stop()


def block_loop(seconds: float) -> None:
    """Keep the event loop from turning."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


async def test_everything_is_executed_before_the_first_measure(world: World) -> None:
    manager = world.manager()
    world.fullness = 2.0
    assert {manager.decide(kind) for kind in OperationType} == {LoadDecision.EXECUTE}
    await manager.start()
    assert {manager.decide(kind) for kind in OperationType} == {LoadDecision.EXECUTE}


async def test_bounds_hold_before_the_first_measure_too(world: World) -> None:
    world.acks_waiting = 50_000
    for kind in ACKS:
        with pytest.raises(Overloaded):
            world.manager().admit(kind)


async def test_load_is_measured_and_so_is_its_end(world: World) -> None:
    manager = world.manager()
    await manager.start()
    world.fullness = 0.8
    await world.settle()
    assert manager.decide(PUSH) is LoadDecision.QUEUE
    assert manager.decide(POP) is LoadDecision.EXECUTE
    world.fullness = 0.6
    await world.settle()
    assert manager.decide(PUSH) is LoadDecision.QUEUE, "still above the release"
    world.fullness = 0.1
    await world.settle()
    assert manager.decide(PUSH) is LoadDecision.EXECUTE


@pytest.mark.parametrize(
    "load",
    [
        {"slots": SlotUse(16, 16, 8)},
        {"fullness": 1.0},
        {"oldest_ms": 1_000.0},
    ],
    ids=lambda load: next(iter(load)),
)
async def test_every_measure_counts(world: World, load: dict[str, Any]) -> None:
    manager = world.manager()
    await manager.start()
    for name, value in load.items():
        setattr(world, name, value)
    await world.settle()
    with pytest.raises(Overloaded):
        manager.admit(POP)


async def test_one_bad_measure_alone_holds_nothing_back(world: World) -> None:
    manager = world.manager()
    world.coming = [0.0, 5.0, 0.0, 5.0, 0.0, 0.0]
    await manager.start()
    await wait_until_async(lambda: not world.coming, timeout_s=SOON_S, what="all measures")
    await world.settle()
    assert world.engaged == set()
    world.coming = [0.0, 5.0, 5.0, 0.0]
    await wait_until_async(lambda: not world.coming, timeout_s=SOON_S, what="all measures")
    await world.settle()
    assert POP in world.engaged, "two in a row are load"


async def test_a_loop_that_does_not_turn_is_load(world: World) -> None:
    manager = world.manager(lag_ms=100)
    await manager.start()

    async def is_refused() -> bool:
        block_loop(0.4)
        return manager.decide(POP) is LoadDecision.REJECT

    await wait_until_async(is_refused, timeout_s=SOON_S, what="the lag to be noticed")
    assert manager.lag_ms > 100


async def test_counts_are_those_of_the_moment(world: World) -> None:
    manager = world.manager()
    await manager.start()
    world.fullness = 0.8
    await world.settle()
    # Without a measure in between:
    world.operation_depth = 9_999
    assert manager.decide(PUSH) is LoadDecision.QUEUE
    world.operation_depth = 10_000
    assert manager.decide(PUSH) is LoadDecision.REJECT
    world.acks_waiting = 50_000
    assert manager.decide(ACKS[0]) is LoadDecision.REJECT
    world.acks_waiting = 49_999
    assert manager.decide(ACKS[0]) is LoadDecision.EXECUTE


async def test_a_refusal_says_how_deep_and_how_long(world: World) -> None:
    manager = world.manager()
    await manager.start()
    world.fullness = 0.8
    await world.settle()
    world.operation_depth, world.drain_rate = 12_000, 1_000.0
    with pytest.raises(Overloaded, match=r"takes no push now.*try again in 12 s") as caught:
        manager.admit(PUSH)
    assert (caught.value.depth, caught.value.retry_after_s) == (12_000, 12)
    world.acks_waiting = 60_000
    with pytest.raises(Overloaded, match="takes no ack batch now") as caught:
        manager.admit(OperationType.ACK_BATCH)
    assert (caught.value.depth, caught.value.retry_after_s) == (60_000, 1)


async def test_admit_hands_on_what_is_not_refused(world: World) -> None:
    manager = world.manager()
    await manager.start()
    assert manager.admit(PUSH) is LoadDecision.EXECUTE
    world.fullness = 0.8
    await world.settle()
    assert manager.admit(PUSH) is LoadDecision.QUEUE


async def test_switched_off_it_executes_everything(world: World) -> None:
    manager = world.manager(is_enabled=False)
    await manager.start()
    world.fullness, world.acks_waiting, world.operation_depth = 9.0, 10**6, 10**6
    await world.settle()
    assert {manager.admit(kind) for kind in OperationType} == {LoadDecision.EXECUTE}


async def test_a_measure_that_breaks_does_not_end_measuring(world: World) -> None:
    manager = world.manager()
    caught: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: caught.append(context))
    await manager.start()
    world.is_broken = True
    await world.settle(2)
    world.is_broken, world.fullness = False, 1.0
    await world.settle()
    assert caught, "a defect is said"
    assert manager.decide(POP) is LoadDecision.REJECT


async def test_after_a_stop_nothing_is_measured_or_held_back(world: World) -> None:
    manager, other = world.manager(), World()
    await manager.start()
    await manager.start()
    world.fullness = 1.0
    await world.settle()
    await manager.stop()
    await manager.stop()
    looks = world.looks
    witness = other.manager()
    await witness.start()
    await other.settle()
    await witness.stop()
    assert world.looks == looks
    assert manager.decide(POP) is LoadDecision.EXECUTE


async def test_the_series_tell_what_happened(world: World) -> None:
    registry = Registry()
    manager = world.manager(lag_ms=1e9)
    register_load(registry, manager)
    await manager.start()
    manager.decide(PUSH)
    world.fullness = 0.75
    await world.settle()
    manager.decide(PUSH)
    manager.decide(PUSH)
    decisions = {
        decision: registry.sum("queen_load_decisions", type="push", decision=decision)
        for decision in ("execute", "queue", "reject")
    }
    assert decisions == {"execute": 1, "queue": 2, "reject": 0}
    assert registry.sum("queen_load_pressure") == 0.75
    assert registry.sum("queen_load_engaged", type="push") == 1
    assert registry.sum("queen_load_engaged", type="ack_batch") == 0
    block_loop(0.3)
    await world.settle(1)
    assert registry.sum("queen_event_loop_lag_seconds") > 0
