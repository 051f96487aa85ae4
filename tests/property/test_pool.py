"""Laws of a pool: partitions take turns, waiters are served in order of arrival."""

from __future__ import annotations

from uuid import UUID

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from queenmq.engine.outcomes import HoldReason
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.intention import Intention
from queenmq.engine.pop.machine import PopEvent
from tests.support.pops import GROUP, ORDERS, make_intention, make_pool, numbers, partition

partitions = st.integers(0, 9).map(partition)


class PoolMachine(RuleBasedStateMachine):
    """A pool against plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool(ORDERS, GROUP)
        self.ready: list[UUID] = []
        self.held: set[UUID] = set()
        self.waiting: list[Intention] = []
        self.away: list[Intention] = []
        self.tick = 0

    @rule(partition_id=partitions)
    def mark_ready(self, partition_id: UUID) -> None:
        self.pool.mark_ready(partition_id)
        if partition_id not in self.ready:
            self.ready.append(partition_id)
        self.held.discard(partition_id)

    @rule(count=st.integers(1, 4), busy=st.sets(partitions))
    def take_ready(self, count: int, busy: set[UUID]) -> None:
        expected = [one for one in self.ready if one not in busy]
        assert list(self.pool.free_ready(busy, ())) == expected
        for one in expected[:count]:
            del self.pool.ready[one]
            self.ready.remove(one)

    @precondition(lambda self: self.ready)
    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        partition_id = data.draw(st.sampled_from(self.ready))
        self.ready.remove(partition_id)
        del self.pool.ready[partition_id]
        self.held.add(partition_id)
        self.pool.hold(partition_id, HoldReason.LEASE, self.tick)

    @rule()
    def hold_ready(self) -> None:
        self.pool.hold_ready(self.tick)
        self.held.update(self.ready)
        self.ready.clear()

    @rule(count=st.integers(1, 50), wait_ms=st.sampled_from([None, 1]))
    def arrive(self, count: int, wait_ms: int | None) -> None:
        for _ in range(count):
            intention = make_intention(tick=self.tick, wait_ms=wait_ms)
            self.pool.add(intention)
            self.waiting.append(intention)

    @precondition(lambda self: self.waiting)
    @rule()
    def serve(self) -> None:
        intention = self.waiting.pop(0)
        assert self.pool.first_number() == intention.number
        self.pool.remove(intention)
        intention.move(PopEvent.ASSIGNED, 0)
        self.away.append(intention)

    @precondition(lambda self: self.away)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        intention = data.draw(st.sampled_from(self.away))
        self.away.remove(intention)
        intention.move(PopEvent.REFUSED, 0)
        self.pool.add(intention)
        self.waiting.append(intention)
        self.waiting.sort(key=lambda one: one.number)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), count=st.integers(1, 40))
    def leave(self, data: st.DataObject, count: int) -> None:
        start = data.draw(st.integers(0, len(self.waiting) - 1))
        for intention in self.waiting[start : start + count]:
            self.pool.remove(intention)
            intention.move(PopEvent.CALLER_LEFT, 0)
        del self.waiting[start : start + count]

    @rule()
    def look_up_ends(self) -> None:
        self.tick += 1
        self.pool.resolved_tick = self.tick

    @invariant()
    def waiters_are_known(self) -> None:
        assert self.pool.waiting_count == len(self.waiting)
        assert self.pool.impatient == sum(one.request.wait_ms is None for one in self.waiting)

    @invariant()
    def unsettled_are_the_latest(self) -> None:
        expected = [one for one in self.waiting if one.tick >= self.pool.resolved_tick]
        assert self.pool.not_looked_up()[::-1] == expected

    @invariant()
    def partitions_are_known(self) -> None:
        assert list(self.pool.ready) == self.ready
        assert set(self.pool.held) == self.held

    def teardown(self) -> None:
        assert list(self.pool.waiting()) == self.waiting


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=40)


@given(count=st.integers(1, 8), turns=st.integers(1, 60))
def test_no_partition_is_served_twice_before_all_were_served_once(count: int, turns: int) -> None:
    pool = make_pool(*range(count))
    served = []
    for _ in range(turns):
        partition_id = next(pool.free_ready((), ()))
        served += numbers([partition_id])
        del pool.ready[partition_id]
        pool.mark_ready(partition_id)
    assert served == [turn % count for turn in range(turns)]
