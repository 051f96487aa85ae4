"""Laws of a pool: partitions take turns, waiters are served in order of arrival."""

from __future__ import annotations

from uuid import UUID

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from queenmq.engine.operation import PopRequest, Scope
from queenmq.engine.pop_machine import PopEvent
from queenmq.engine.ready_index import Intention, Pool

GROUP = "group"
REQUEST = PopRequest(scope=Scope("queue"), consumer_group=GROUP, batch=1)

partitions = st.integers(0, 9).map(lambda number: UUID(int=number))


class PoolMachine(RuleBasedStateMachine):
    """A pool against plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool(REQUEST.scope, GROUP)
        self.ready: list[UUID] = []
        self.waiting: list[Intention] = []
        self.away: list[Intention] = []

    @rule(partition_id=partitions)
    def mark_ready(self, partition_id: UUID) -> None:
        self.pool.mark_ready(partition_id)
        if partition_id not in self.ready:
            self.ready.append(partition_id)

    @rule(count=st.integers(1, 4), busy=st.sets(partitions))
    def take_ready(self, count: int, busy: set[UUID]) -> None:
        expected = [one for one in self.ready if one not in busy][:count]
        assert self.pool.take_ready(count, {(one, GROUP) for one in busy}) == expected
        self.ready = [one for one in self.ready if one not in expected]

    @rule(count=st.integers(1, 50))
    def arrive(self, count: int) -> None:
        for _ in range(count):
            intention = Intention(REQUEST, tick=0, answer=None)
            self.pool.add(intention)
            self.waiting.append(intention)

    @precondition(lambda self: self.waiting)
    @rule()
    def serve(self) -> None:
        assert self.pool.first() is self.waiting[0]
        intention = self.pool.pop_first()
        assert intention is self.waiting.pop(0)
        intention.move(PopEvent.ASSIGNED)
        self.away.append(intention)

    @precondition(lambda self: self.away)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        intention = data.draw(st.sampled_from(self.away))
        self.away.remove(intention)
        intention.move(PopEvent.REFUSED)
        self.pool.add(intention)
        self.waiting.append(intention)
        self.waiting.sort(key=lambda one: one.number)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), count=st.integers(1, 40))
    def leave(self, data: st.DataObject, count: int) -> None:
        start = data.draw(st.integers(0, len(self.waiting) - 1))
        for intention in self.waiting[start : start + count]:
            self.pool.left()
            intention.move(PopEvent.CALLER_LEFT)
        del self.waiting[start : start + count]
        assert len(self.pool._waiting) <= max(64, 2 * len(self.waiting) + 1), "they pile up"

    @invariant()
    def waiters_are_known(self) -> None:
        assert self.pool.waiting_count == len(self.waiting)
        assert self.pool.pending() == self.waiting
        assert self.pool.first() is (self.waiting[0] if self.waiting else None)

    @invariant()
    def ready_partitions_are_in_turn(self) -> None:
        assert list(self.pool.ready) == self.ready


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=40)


@given(count=st.integers(1, 8), turns=st.integers(1, 60))
def test_no_partition_is_served_twice_before_all_were_served_once(count: int, turns: int) -> None:
    pool = Pool(REQUEST.scope, GROUP)
    for number in range(count):
        pool.mark_ready(UUID(int=number))
    served = []
    for _ in range(turns):
        (partition_id,) = pool.take_ready(1, set())
        served.append(partition_id.int)
        pool.mark_ready(partition_id)
    assert served == [turn % count for turn in range(turns)]
