"""Planning turns of pops: what becomes news, what is on its way, and what a call teaches."""

from __future__ import annotations

import pytest

from queenmq.engine.outcomes import HoldReason
from queenmq.engine.pop.board import learning, state, turns
from queenmq.engine.pop.board import pool as pool_module
from queenmq.engine.pop.board.decision import Assignment, Decision, Plan, Room, count_skipped
from queenmq.engine.pop.machine import PopEvent, PopState
from queenmq.engine.requests import PartitionKey, Scope
from tests.support.pops import (
    ORDERS,
    OpenBoard,
    make_board,
    make_grant,
    make_resolved,
    mark,
    partition,
    plan,
    served,
    submit,
    taken,
)


class TestPlan:
    def test_nothing_is_planned_without_news(self) -> None:
        found = plan(make_board())
        assert (found.assignments, found.skipped, found.cut_off) == ([], [], [])

    def test_a_pop_with_partitions_to_try_is_on_its_way(self) -> None:
        board = make_board()
        first, second, third = submit(board), submit(board), submit(board)
        pool = mark(board, 1, 2)
        found = plan(board)
        assert served(found) == [first, second]
        assert [one.state for one in (first, second, third)] == [
            PopState.LEASING,
            PopState.LEASING,
            PopState.PENDING,
        ]
        assert list(pool.waiting()) == [third]
        assert not pool.ready
        assert pool.claims == {first.number, second.number}
        assert board.state.claiming == {partition(1), partition(2)}

    def test_a_pool_with_nothing_to_try_is_handed_out(self) -> None:
        board = make_board()
        submit(board)
        submit(board)
        pool = mark(board)
        found = plan(board)
        assert [one for one, _ in found.skipped] == [pool]
        assert count_skipped(found) == {Decision.SKIP_NO_PARTITIONS: 2}
        assert not board.state.dirty

    def test_pools_that_were_cut_off_are_news_again(self) -> None:
        board = make_board(Room(requests=1, candidates=10, messages=10))
        for _ in range(3):
            submit(board)
        mark(board, 1, 2, 3)
        turns = [taken(plan(board)) for _ in range(3)]
        assert turns == [[[1]], [[2]], [[3]]]

    def test_a_partition_is_never_in_two_calls(self) -> None:
        board = make_board()
        submit(board)
        mark(board, 1)
        plan(board)
        submit(board)
        mark(board, 1)
        assert plan(board).assignments == []

    def test_a_pool_whose_partitions_are_in_calls_has_news_when_one_ends(self) -> None:
        board = make_board()
        submit(board)
        pool = mark(board, 1)
        call = plan(board).assignments
        submit(board)
        mark(board, 1)
        plan(board)
        assert not board.state.dirty
        board.end(call)
        assert pool in board.state.dirty
        assert taken(plan(board)) == [[1]]

    def test_a_call_of_another_group_that_ends_is_news_too(self) -> None:
        board = make_board()
        submit(board, group="audit")
        mark(board, 1, group="audit")
        call = plan(board).assignments
        submit(board)
        mark(board, 1)
        assert plan(board).assignments == []
        board.end(call)
        assert taken(plan(board)) == [[1]]

    def test_a_plan_that_gives_a_partition_away_twice_is_stopped_and_counted(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        board = make_board()
        first, second = submit(board), submit(board)
        pool = mark(board, 1)
        twice = [Assignment(one, pool, [partition(1)], 0) for one in (first, second)]
        monkeypatch.setattr(turns, "decide", lambda *_, room: Plan(twice))
        assert served(plan(board)) == [first]
        assert board.double_assignments == 1
        assert second.state is PopState.PENDING
        assert pool in board.state.dirty

    @pytest.mark.parametrize("is_auto_ack", [True, False])
    def test_nobody_is_settled_while_a_call_of_the_pool_is_in_flight(
        self, is_auto_ack: bool
    ) -> None:
        # It may leave something behind: spare partitions, or the rest of one.
        board = make_board()
        submit(board, is_auto_ack=is_auto_ack)
        pool = mark(board, 1)
        call = plan(board).assignments
        pool.resolved_tick = 5
        submit(board)
        assert plan(board).assignments == []
        assert not pool.is_exhausted()
        board.end(call)
        assert pool.is_exhausted()
        assert pool in board.state.dirty


class TestNews:
    def test_a_ready_partition_is_news_only_if_somebody_waits(self) -> None:
        board = make_board()
        pool = mark(board)
        board.state.add_ready(pool, partition(1))
        assert not board.state.dirty
        submit(board)
        board.state.dirty.clear()
        board.state.add_ready(pool, partition(2))
        assert pool in board.state.dirty

    def test_a_pool_over_several_queues_has_to_look_up(self) -> None:
        board = make_board()
        scope = Scope(namespace="shop")
        submit(board, scope)
        pool = mark(board, scope=scope)
        board.state.tick = 5
        pool.resolved_tick = 5
        pool.ready[partition(7)] = None
        board.state.add_ready(pool, partition(1))
        assert not pool.ready
        assert set(pool.held) == {partition(1), partition(7)}
        assert not pool.is_exhausted()

    def test_a_freed_partition_is_news_for_its_group_only(self) -> None:
        board = make_board()
        for group in ("audit", "billing"):
            submit(board, group=group)
        board.state.dirty.clear()
        key = PartitionKey("orders", "p1")
        board.free(partition(1), key, "audit", ("", ""))
        assert [pool.consumer_group for pool in board.state.dirty] == ["audit"]

    def test_doubt_takes_every_horizon_away(self) -> None:
        board = make_board()
        pools = [mark(board, scope=scope) for scope in (ORDERS, Scope(namespace="shop"))]
        for pool in pools:
            pool.horizon = "7"
        board.state.doubt()
        assert [pool.horizon for pool in pools] == [None, None]


def make_call(*ready: int, scope: Scope = ORDERS, **more: object) -> tuple[OpenBoard, Assignment]:
    """A call for one pop that has just ended."""
    board = make_board()
    pool = mark(board, scope=scope)
    pool.learn(make_resolved(), (), tick=0, doubts=0)
    submit(board, scope, partitions=len(ready), **more)
    mark(board, *ready, scope=scope)
    (call,) = plan(board).assignments
    board.end([call])
    return board, call


class TestWhatACallSays:
    @pytest.mark.parametrize("outcome", ["again", "spare"])
    def test_what_is_worth_another_try_stays_ready(self, outcome: str) -> None:
        board, call = make_call(1)
        assert board.learn(call, [make_grant(1, outcome)], 0)
        assert list(call.pool.ready) == [partition(1)]

    @pytest.mark.parametrize(
        ("outcome", "why"),
        [
            ("held", HoldReason.LEASE),
            ("granted", HoldReason.LEASE),
            ("leased", HoldReason.LEASE),
            ("retry", HoldReason.TIME),
            ("window", HoldReason.TIME),
            ("delayed", HoldReason.TIME),
            ("blocked", HoldReason.BLOCKED),
        ],
    )
    def test_what_must_wait_is_held(self, outcome: str, why: str) -> None:
        board, call = make_call(1)
        assert board.learn(call, [make_grant(1, outcome, has_more=False)], 0)
        assert not call.pool.ready
        assert {one: held.why for one, held in call.pool.held.items()} == {partition(1): why}

    def test_what_is_empty_is_forgotten(self) -> None:
        board, call = make_call(1)
        board.learn(call, [make_grant(1, "none", has_more=False)], 0)
        assert not call.pool.ready and not call.pool.held

    @pytest.mark.parametrize("has_more", [True, False])
    def test_the_rest_of_an_auto_acked_partition_is_ready(self, has_more: bool) -> None:
        board, call = make_call(1, is_auto_ack=True)
        board.learn(call, [make_grant(1, "granted", has_more=has_more)], 0)
        assert (partition(1) in call.pool.ready) is has_more
        assert not call.pool.held

    def test_what_a_look_up_meanwhile_may_have_seen_is_not_forgotten(self) -> None:
        # It was told nothing of the partition, and the horizon has moved on.
        board, call = make_call(1)
        board.state.tick = 3
        call.pool.learn(make_resolved(), (), tick=3, doubts=0)
        board.learn(call, [make_grant(1, "none", has_more=False)], 0)
        assert partition(1) in call.pool.held

    def test_the_earliest_due_time_is_remembered(self) -> None:
        board, call = make_call(1, 2, 3)
        answers = [
            make_grant(1, "held", due_ms=900),
            make_grant(2, "delayed", due_ms=300),
            make_grant(3, "held", due_ms=500),
        ]
        board.learn(call, answers, 1_000)
        assert call.pool.due_at_ms == 1_300
        assert call.pool in board.state.due

    def test_a_locked_partition_is_tried_again_a_few_times(self) -> None:
        board, call = make_call(1)
        for _ in range(learning.TRIES_MAX - 1):
            assert board.learn(call, [], 0)
            assert call.pool.ready.pop(partition(1), "absent") is None
        board.learn(call, [], 0)
        assert not call.pool.ready
        assert partition(1) in call.pool.held

    def test_a_partition_by_name_that_gave_no_answer_is_looked_up_again(self) -> None:
        board, call = make_call(1, scope=Scope("orders", "p1"))
        assert not board.learn(call, [], 0)
        assert not call.pool.is_exhausted()
        assert not call.pool.ready

    @pytest.mark.parametrize("has_horizon", [True, False])
    def test_many_held_partitions_ask_for_a_look_up_if_it_is_cheap(
        self, monkeypatch: pytest.MonkeyPatch, has_horizon: bool
    ) -> None:
        monkeypatch.setattr(pool_module, "PRUNE_MIN", 2)
        board, call = make_call(1, 2)
        call.pool.horizon = "7" if has_horizon else None
        board.learn(call, [make_grant(1, "held")], 0)
        assert call.pool not in board.state.dry
        board.learn(call, [make_grant(1, "held"), make_grant(2, "held")], 0)
        assert (call.pool in board.state.dry) is has_horizon


class TestPoolsAreForgotten:
    def test_idle_pools_make_room_for_new_ones(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(state, "POOLS_MAX", 2)
        board = make_board()
        idle = mark(board, scope=Scope("idle"))
        waiter = submit(board, Scope("waited-for"))
        submit(board, Scope("new"))
        assert idle not in list(board.state.pools)
        assert list(board.state.pool_of(waiter.request).waiting()) == [waiter]

    def test_pools_in_use_are_gone_through_only_when_they_have_doubled(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(state, "POOLS_MAX", 3)
        board = make_board()
        for name in "abcd":
            submit(board, Scope(name))
        idle = mark(board, scope=Scope("idle"))
        submit(board, Scope("e"))
        assert idle in list(board.state.pools)
        submit(board, Scope("f"))
        assert idle not in list(board.state.pools)

    def test_a_pool_with_a_call_in_flight_is_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Its pop may come back without a partition, and then has to be found by the next push.
        monkeypatch.setattr(state, "POOLS_MAX", 1)
        board = make_board()
        intention = submit(board)
        pool = mark(board, 1)
        (call,) = plan(board).assignments
        submit(board, Scope("other"))
        board.end([call])
        intention.move(PopEvent.REFUSED, 0)
        pool.add(intention)
        assert board.state.pool_of(intention.request) is pool
