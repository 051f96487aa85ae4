"""A queue with many partitions is searched slice by slice, over several look-ups."""

from __future__ import annotations

import pytest

from queenmq.engine.pop.board import pool as pool_module
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.board.walking import is_check_due
from queenmq.engine.requests import Scope
from tests.support.knowledge_world import KnowledgeWorld
from tests.support.model_database import RECENT_MAX, ModelPartition
from tests.support.pops import numbers

ORDERS = Scope("orders")
GROUP = "g"


class LargeQueue(KnowledgeWorld):
    """Three partitions, a slice each. The newest messages are in the last one, and passed."""

    def __init__(self, *waiting: int) -> None:
        super().__init__([ORDERS], [GROUP])
        self.database.whole_max = 0
        for number in waiting:
            self.push(number)
        for _ in range(RECENT_MAX):
            self.push(3)
        self.partition(3).cursor(GROUP).seq = RECENT_MAX

    @property
    def pool(self) -> Pool:
        return self.board.state.pools.get_or_add(ORDERS, GROUP)

    def partition(self, number: int) -> ModelPartition:
        return self.database.partitions[number - 1]

    def push(self, number: int) -> None:
        transaction = self.database.begin()
        transaction.pushes.append((self.partition(number), 1))
        self.end(transaction, is_here=False)

    def find(self, *, times: int = 1) -> list[int]:
        """Look up and return what is ready."""
        for _ in range(times):
            self.look_up_now([self.pool])
        return numbers(self.pool.ready)

    def check_is_due(self) -> None:
        self.pool.full_at_ms = float("-inf")

    def check_is_done(self) -> None:
        self.pool.full_at_ms = float("inf")


def test_each_look_up_brings_a_slice_and_the_last_one_a_horizon() -> None:
    world = LargeQueue(1, 2)
    assert world.find() == [1]
    assert world.find() == [1, 2]
    assert world.pool.is_walking and world.pool.horizon is None
    assert world.find() == [1, 2]
    assert not world.pool.is_walking and world.pool.horizon == str(world.database.horizon)


def test_a_queue_with_few_messages_needs_no_walk() -> None:
    world = LargeQueue(1)
    for seq in list(world.partition(3).rows)[1:]:
        del world.partition(3).rows[seq]
    assert world.find() == [1]
    assert world.pool.walk is None and world.pool.horizon is not None


def test_a_walk_follows_what_is_pushed_behind_it() -> None:
    world = LargeQueue()
    assert world.find(times=2) == []
    world.push(1)
    assert world.find() == [1]
    assert world.pool.horizon == str(world.database.horizon)


def test_more_than_a_look_up_reads_is_found_by_the_next_walk() -> None:
    world = LargeQueue()
    assert world.find(times=2) == []
    world.push(1)
    for _ in range(20):
        world.push(2)
    world.partition(2).cursor(GROUP).seq = 20
    world.partition(3).cursor(GROUP).seq = 0
    assert world.find() == [3], "the walk goes on and does not begin anew"
    assert not world.pool.is_walking and world.pool.horizon is None
    assert sorted(world.find(times=3)) == [1, 3]
    assert world.pool.horizon is not None


def test_a_doubt_during_a_walk_takes_its_horizon_away() -> None:
    world = LargeQueue(1)
    assert world.find(times=2) == [1]
    world.pool.ready.clear()
    world.pool.doubt()
    assert world.find() == []
    assert not world.pool.is_walking and world.pool.horizon is None
    assert world.find(times=3) == [1]
    assert world.pool.horizon is not None


def test_only_the_end_of_a_walk_answers_pops_that_came_before_it() -> None:
    world = LargeQueue()
    world.find()
    world.submit(ORDERS, GROUP)
    world.find(times=2)
    assert not world.pool.is_looked_up(), "the walk had begun when the pop came"
    world.find()
    assert world.pool.is_looked_up()


def test_a_walk_pauses_while_there_is_enough_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "READY_MAX", 4)
    world = LargeQueue(1, 2)
    for _ in range(2):
        world.pool.mark_ready(world.partition(1).id)
        world.pool.mark_ready(world.partition(2).id)
        world.find()
    assert world.pool.walk is not None and world.pool.walk.took_ms == 0
    assert world.pool.walk.after.int == 0
    world.pool.ready.clear()
    assert world.find() == [1]


def test_a_walk_ends_where_more_must_wait_than_can_be_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool_module, "HELD_MAX", 1)
    world = LargeQueue(1, 2, 3)
    world.partition(3).cursor(GROUP).seq = 0
    for number in (1, 2):
        world.partition(number).cursor(GROUP).retry_at = 99
    assert world.find(times=3) == [3]
    assert not world.pool.is_walking and world.pool.horizon is None
    assert numbers(world.pool.held) == [1]


class TestCheck:
    def test_a_pool_keeps_its_horizon_and_finds_what_was_changed_by_hand(self) -> None:
        world = LargeQueue()
        world.find(times=3)
        world.check_is_done()
        world.partition(2).rows[1] = 1
        world.partition(2).last_seq = 1
        assert world.find() == [], "nothing tells of it"
        world.check_is_due()
        assert world.find() == []
        assert world.pool.walk is not None and world.pool.horizon is not None
        assert world.find(times=2) == [2]
        assert world.pool.walk is None and world.pool.horizon is not None

    def test_it_also_goes_through_small_queues(self) -> None:
        world = LargeQueue()
        world.database.whole_max = 99
        world.find()
        world.check_is_due()
        world.partition(1).rows[1] = 1
        world.partition(1).last_seq = 1
        assert world.find() == [1]

    def test_a_doubt_makes_it_a_search(self) -> None:
        world = LargeQueue()
        world.find(times=3)
        world.check_is_due()
        world.find()
        world.pool.doubt()
        assert world.pool.walk is None
        world.find()
        assert world.pool.is_walking

    def test_it_takes_no_more_than_a_hundredth_of_the_time(self) -> None:
        pool = LargeQueue().pool
        pool.full_at_ms = 1_000
        assert not is_check_due(pool, 121_000)
        assert is_check_due(pool, 121_001)
        pool.walked_ms = 4_000
        assert not is_check_due(pool, 401_000)
        assert is_check_due(pool, 401_001)


def test_walks_that_found_no_time_come_first_in_the_next_look_up() -> None:
    world = LargeQueue(1)
    other = world.board.state.pools.get_or_add(ORDERS, "other")
    world.begin_look_up([world.pool, other])
    while world.question is not None:
        # Both are looked up, and one slice takes all of the time.
        is_slice = len(world.pool.ready) == 0 and other.walk is not None
        world.limit_pairs(1 if is_slice else 9)
        world.question.see()
        world.resume_look_up()
    assert next(iter(world.board.state.dry)) is other


def test_what_was_found_before_a_slice_that_fails_is_given_out() -> None:
    world = LargeQueue(1)
    for _ in range(RECENT_MAX):
        world.push(2)
    pop = world.submit(ORDERS, GROUP, wait_ms=60_000)
    world.begin_look_up([world.pool])
    world.board.state.dirty.clear()
    while not world.pool.is_walking:
        assert world.question is not None
        world.question.see()
        world.resume_look_up()
    world.fail_look_up()
    assert numbers(world.pool.ready) == [2]
    world.plan()
    assert [one.intention for call in world.calls for one in call.assignments] == [pop]
