"""A pool: who waits, which partition is next, and what is known of the others."""

from __future__ import annotations

from uuid import UUID

import pytest

from queenmq.engine.outcomes import HoldReason
from queenmq.engine.pop.board import pool as pool_module
from queenmq.engine.pop.board.pool import Pool
from tests.support.pops import learn, make_intention, make_pool, numbers, partition


def free(pool: Pool, busy: set[int] = frozenset(), taken: set[int] = frozenset()) -> list[int]:
    """The partitions that a plan may take, in turn."""
    ids: list[set[UUID]] = [{partition(one) for one in some} for some in (busy, taken)]
    return numbers(pool.free_ready(*ids))


def held(pool: Pool) -> dict[int, str]:
    return {one.int: held.why for one, held in pool.held.items()}


class TestWaiters:
    def test_the_longest_waiter_is_first(self) -> None:
        pool = make_pool()
        early, late = make_intention(), make_intention()
        pool.add(late)
        pool.add(early)
        assert pool.first_number() == early.number
        assert list(pool.waiting()) == [early, late]

    def test_a_returning_waiter_gets_its_old_place(self) -> None:
        pool = make_pool()
        crowd = [make_intention() for _ in range(3)]
        for intention in crowd:
            pool.add(intention)
        for intention in crowd[:2]:
            pool.remove(intention)
        pool.add(crowd[1])
        assert list(pool.waiting()) == crowd[1:]
        pool.add(crowd[0])
        assert list(pool.waiting()) == crowd

    def test_those_who_left_are_gone_from_any_place(self) -> None:
        pool = make_pool()
        crowd = [make_intention() for _ in range(5)]
        for intention in crowd:
            pool.add(intention)
        for intention in (crowd[2], crowd[4], crowd[0]):
            pool.remove(intention)
        assert list(pool.waiting()) == [crowd[1], crowd[3]]
        assert pool.waiting_count == 2

    def test_impatient_ones_are_counted(self) -> None:
        pool = make_pool()
        patient, impatient = make_intention(wait_ms=5), make_intention(wait_ms=None)
        pool.add(patient)
        pool.add(impatient)
        assert pool.impatient == 1
        pool.remove(patient)
        assert pool.impatient == 1
        pool.remove(impatient)
        assert pool.impatient == 0


class TestReadyPartitions:
    def test_a_partition_that_is_marked_again_keeps_its_place(self) -> None:
        pool = make_pool(1, 2)
        pool.mark_ready(partition(1))
        assert free(pool) == [1, 2]

    def test_a_partition_that_was_served_goes_to_the_end(self) -> None:
        pool = make_pool(1, 2, 3)
        served = []
        for _ in range(7):
            first = free(pool)[0]
            served.append(first)
            del pool.ready[partition(first)]
            pool.mark_ready(partition(first))
        assert served == [1, 2, 3, 1, 2, 3, 1]

    def test_busy_and_taken_ones_are_passed_over_and_keep_their_place(self) -> None:
        pool = make_pool(1, 2, 3, 4)
        assert free(pool, busy={1}, taken={3}) == [2, 4]
        assert free(pool) == [1, 2, 3, 4]

    def test_one_that_is_taken_while_others_are_given_out_is_passed_over(self) -> None:
        pool = make_pool(1, 2, 3)
        taken: set[UUID] = set()
        given = pool.free_ready(set(), taken)
        assert next(given) == partition(1)
        taken.add(partition(2))
        assert next(given) == partition(3)

    def test_work_ends_the_holding(self) -> None:
        pool = make_pool()
        pool.hold(partition(1), HoldReason.LEASE, 0)
        pool.mark_ready(partition(1))
        assert (free(pool), held(pool)) == ([1], {})

    def test_memory_is_bounded_and_forgetting_takes_the_horizon_away(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pool_module, "READY_MAX", 3)
        pool = make_pool(1, 2)
        pool.horizon = "7"
        pool.mark_ready(partition(3))
        assert pool.horizon == "7"
        pool.mark_ready(partition(4))
        assert free(pool) == [1, 2, 3]
        assert pool.horizon is None

    def test_a_held_partition_that_finds_no_room_stays_held(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pool_module, "READY_MAX", 1)
        pool = make_pool(1)
        pool.hold(partition(2), HoldReason.LEASE, 0)
        pool.mark_ready(partition(2))
        assert held(pool) == {2: HoldReason.LEASE}


class TestHeldPartitions:
    def test_memory_is_bounded_and_forgetting_takes_the_horizon_away(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pool_module, "HELD_MAX", 2)
        pool = make_pool()
        pool.horizon = "7"
        for number in (1, 2):
            pool.hold(partition(number), HoldReason.TIME, 0)
        assert pool.horizon == "7"
        pool.hold(partition(3), HoldReason.TIME, 0)
        assert len(pool.held) <= 2
        assert pool.horizon is None

    def test_what_only_a_look_up_can_order_is_held_and_unsettles(self) -> None:
        pool = make_pool(1, 2)
        pool.resolved_tick = 5
        pool.hold_ready(5)
        assert (free(pool), held(pool)) == ([], {1: HoldReason.TIME, 2: HoldReason.TIME})
        assert not pool.is_exhausted()
        # Nor does a look-up settle it that had begun before.
        pool.resolved_tick = 5
        assert not pool.is_exhausted()


class TestLookUp:
    def test_the_answer_is_remembered(self) -> None:
        pool = make_pool()
        learn(pool, 1, 2, held={3: HoldReason.LEASE, 4: HoldReason.BLOCKED}, horizon="12", tick=5)
        assert (free(pool), held(pool)) == ([1, 2], {3: HoldReason.LEASE, 4: HoldReason.BLOCKED})
        assert (pool.horizon, pool.resolved_tick, pool.is_found) == ("12", 5, True)

    def test_an_answer_that_was_cut_gives_no_horizon(self) -> None:
        pool = make_pool()
        learn(pool, 1, is_complete=False)
        assert free(pool) == [1]
        assert pool.horizon is None

    def test_a_name_that_does_not_exist_is_remembered(self) -> None:
        pool = make_pool()
        learn(pool, is_found=False)
        assert not pool.is_found
        learn(pool, tick=6)
        assert pool.is_found

    def test_what_it_was_told_of_and_does_not_find_is_done(self) -> None:
        pool = make_pool()
        for number in (1, 2, 3):
            pool.hold(partition(number), HoldReason.LEASE, 4)
        learn(pool, 1, known=(1, 2, 3), held={2: HoldReason.TIME}, tick=5)
        assert (free(pool), held(pool)) == ([1], {2: HoldReason.TIME})

    def test_what_it_was_not_told_of_stays(self) -> None:
        pool = make_pool(9)
        pool.hold(partition(1), HoldReason.LEASE, 4)
        learn(pool, 2, tick=5)
        assert (free(pool), held(pool)) == ([9, 2], {1: HoldReason.LEASE})

    def test_what_was_learnt_while_it_ran_stays(self) -> None:
        pool = make_pool()
        pool.hold(partition(1), HoldReason.LEASE, 4)
        pool.hold(partition(1), HoldReason.TIME, 5)
        learn(pool, known=(1,), tick=5)
        assert held(pool) == {1: HoldReason.TIME}

    def test_a_partition_is_not_both_ready_and_held(self) -> None:
        pool = make_pool(1)
        learn(pool, held={1: HoldReason.LEASE})
        assert (free(pool), held(pool)) == ([1], {})

    def test_one_that_is_in_a_call_is_remembered_but_not_given_out(self) -> None:
        pool = make_pool()
        learn(pool, 1, 2)
        assert free(pool, busy={1}) == [2]
        assert not pool.is_exhausted()

    def test_a_doubt_that_arose_while_it_ran_is_not_overruled(self) -> None:
        pool = make_pool()
        learn(pool, horizon="12")
        asked = pool.doubts
        pool.doubt()
        learn(pool, 1, horizon="13", tick=6, doubts=asked)
        assert free(pool) == [1]
        assert pool.horizon is None
        learn(pool, 1, horizon="14", tick=7)
        assert pool.horizon == "14"

    def test_what_finds_no_room_while_it_is_taken_in_is_a_doubt(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pool_module, "READY_MAX", 1)
        pool = make_pool()
        learn(pool, 1, 2)
        assert (free(pool), pool.horizon) == ([1], None)

    def test_the_next_look_up_to_forget_waits_for_twice_as_many(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pool_module, "PRUNE_MIN", 3)
        pool = make_pool()
        learn(pool, held={1: HoldReason.LEASE})
        assert pool.prune_at == 3
        learn(pool, held={number: HoldReason.LEASE for number in range(5)})
        assert pool.prune_at == 10
