"""Planning turns of pops: who gets which partition, in what order, and what stays for later."""

from __future__ import annotations

from uuid import UUID

import pytest

from queenmq.engine import pop_board
from queenmq.engine.operation import PartitionKey, PopGrant, PopRequest, Scope
from queenmq.engine.pop_board import Claim, PopBoard
from queenmq.engine.pop_machine import PopEvent, PopState
from queenmq.engine.ready_index import Intention, Pool

GROUP = "billing"
ORDERS = Scope("orders")


def partition(number: int) -> UUID:
    return UUID(int=number)


def make_board(*, candidates_max: int = 100) -> PopBoard:
    return PopBoard(candidates_max=candidates_max)


def submit(
    board: PopBoard,
    scope: Scope = ORDERS,
    *,
    partitions: int = 1,
    group: str = GROUP,
    is_auto_ack: bool = False,
) -> Intention:
    request = PopRequest(
        scope=scope,
        consumer_group=group,
        batch=1,
        partitions=partitions,
        is_auto_ack=is_auto_ack,
    )
    intention = Intention(request, tick=0, answer=None)
    pool = board.pool_of(request)
    pool.add(intention)
    board.dirty[pool] = None
    return intention


def mark(board: PopBoard, *numbers: int, scope: Scope = ORDERS, group: str = GROUP) -> Pool:
    pool = board.pools.get_or_add(scope, group)
    for number in numbers:
        board.add_ready(pool, partition(number))
    return pool


def plan(board: PopBoard) -> tuple[list[Claim], list[Pool]]:
    """The claims of one turn, and the pools that had nothing left to try."""
    steps = list(board.plan())
    claims = [step for step in steps if isinstance(step, Claim)]
    return claims, [step for step in steps if isinstance(step, Pool)]


def taken(claims: list[Claim]) -> list[list[int]]:
    return [[one.int for one in claim.partition_ids] for claim in claims]


def make_grant(number: int, outcome: str, *, due_ms: float | None = None) -> PopGrant:
    return PopGrant(1, partition(number), outcome, None, None, due_ms, None, None, None, None, None)


class TestPlan:
    def test_nothing_is_planned_without_news(self) -> None:
        assert plan(make_board()) == ([], [])

    def test_the_longest_waiter_gets_the_first_partition(self) -> None:
        board = make_board()
        first, second = submit(board), submit(board)
        mark(board, 1, 2)
        claims, _ = plan(board)
        assert [claim.intention for claim in claims] == [first, second]
        assert taken(claims) == [[1], [2]]
        assert first.state is PopState.LEASING

    def test_a_waiter_may_get_several_partitions(self) -> None:
        board = make_board()
        submit(board, partitions=2)
        mark(board, 1, 2, 3)
        claims, _ = plan(board)
        assert taken(claims) == [[1, 2]]

    def test_a_pool_with_nothing_to_try_is_handed_out(self) -> None:
        board = make_board()
        submit(board)
        pool = mark(board)
        assert plan(board) == ([], [pool])

    def test_a_pair_is_never_in_two_calls(self) -> None:
        board = make_board()
        submit(board)
        mark(board, 1)
        plan(board)
        submit(board)
        mark(board, 1)
        assert plan(board) == ([], [])

    def test_a_pool_whose_partitions_are_in_calls_has_news_when_one_ends(self) -> None:
        board = make_board()
        submit(board)
        pool = mark(board, 1)
        claims, _ = plan(board)
        submit(board)
        mark(board, 1)
        plan(board)
        assert not board.dirty
        board.end(claims)
        assert pool in board.dirty
        claims, _ = plan(board)
        assert taken(claims) == [[1]]

    def test_groups_take_the_same_partition_beside_each_other(self) -> None:
        board = make_board()
        for group in ("audit", "billing"):
            submit(board, group=group)
            mark(board, 1, group=group)
        claims, _ = plan(board)
        assert taken(claims) == [[1], [1]]

    def test_pools_that_ask_by_name_come_first(self) -> None:
        board = make_board()
        submit(board)
        mark(board, 1)
        named = Scope("orders", "p2")
        submit(board, named)
        mark(board, 2, scope=named)
        claims, _ = plan(board)
        assert taken(claims) == [[2], [1]]

    def test_a_call_takes_no_more_candidates_than_its_limit(self) -> None:
        board = make_board(candidates_max=3)
        for _ in range(3):
            submit(board, partitions=2)
        mark(board, *range(6))
        claims, _ = plan(board)
        assert taken(claims) == [[0, 1], [2]]
        claims, _ = plan(board)
        assert taken(claims) == [[3, 4]]

    def test_a_busy_pool_does_not_shut_the_others_out(self) -> None:
        board = make_board(candidates_max=2)
        for scope in (Scope("busy"), Scope("quiet")):
            for _ in range(4):
                submit(board, scope)
        mark(board, *range(10), scope=Scope("busy"))
        mark(board, *range(20, 30), scope=Scope("quiet"))
        first, _ = plan(board)
        second, _ = plan(board)
        assert {claim.pool.scope.queue for claim in first + second} == {"busy", "quiet"}

    def test_pops_by_name_do_not_shut_out_the_others_for_ever(self) -> None:
        board = make_board(candidates_max=2)
        wildcard = submit(board)
        mark(board, 99)
        named = [Scope("orders", f"p{number}") for number in range(4)]
        for number, scope in enumerate(named):
            submit(board, scope)
            mark(board, number, scope=scope)
        for _ in range(20):
            claims, _ = plan(board)
            board.end(claims)
            for claim in claims:
                # Whoever was served asks again at once, as a worker does.
                submit(board, claim.pool.scope)
                mark(board, claim.partition_ids[0].int, scope=claim.pool.scope)
        assert wildcard.state is PopState.LEASING


class TestNews:
    def test_a_ready_partition_is_news_only_if_somebody_waits(self) -> None:
        board = make_board()
        pool = mark(board)
        assert not board.add_ready(pool, partition(1))
        submit(board)
        board.dirty.clear()
        assert board.add_ready(pool, partition(2))
        assert pool in board.dirty

    def test_a_pool_over_several_queues_has_to_look_up(self) -> None:
        board = make_board()
        scope = Scope(namespace="shop")
        submit(board, scope)
        pool = mark(board, scope=scope)
        pool.resolved_tick = 5
        board.add_ready(pool, partition(1))
        assert not pool.ready
        assert pool.resolved_tick == -1

    def test_a_freed_partition_is_news_for_its_group_only(self) -> None:
        board = make_board()
        for group in ("audit", "billing"):
            submit(board, group=group)
        board.dirty.clear()
        key = PartitionKey("orders", "p1")
        (woken,) = board.add_freed(partition(1), key, "audit", ("", ""))
        assert woken.consumer_group == "audit"
        assert list(board.dirty) == [woken]


class TestAutoAck:
    def test_a_pool_is_not_settled_while_an_auto_acked_call_is_in_flight(self) -> None:
        board = make_board()
        submit(board, is_auto_ack=True)
        pool = mark(board, 1)
        claims, _ = plan(board)
        assert pool.auto_claims == 1
        submit(board)
        assert plan(board) == ([], [])
        board.end(claims)
        assert pool.auto_claims == 0
        assert plan(board) == ([], [pool])


class TestKeepReady:
    def make_claim(self, *numbers: int, scope: Scope = ORDERS) -> tuple[PopBoard, Claim]:
        board = make_board()
        submit(board, scope, partitions=len(numbers))
        mark(board, *numbers, scope=scope)
        (claim,), _ = plan(board)
        board.end([claim])
        return board, claim

    @pytest.mark.parametrize("outcome", ["again", "spare"])
    def test_what_is_worth_another_try_stays_ready(self, outcome: str) -> None:
        board, claim = self.make_claim(1)
        assert board.keep_ready(claim, [make_grant(1, outcome)])
        assert list(claim.pool.ready) == [partition(1)]

    @pytest.mark.parametrize("outcome", ["granted", "held", "none", "blocked"])
    def test_what_was_decided_does_not(self, outcome: str) -> None:
        board, claim = self.make_claim(1)
        assert board.keep_ready(claim, [make_grant(1, outcome)])
        assert not claim.pool.ready

    def test_the_earliest_due_time_is_remembered(self) -> None:
        board, claim = self.make_claim(1, 2, 3)
        answers = [
            make_grant(1, "held", due_ms=900),
            make_grant(2, "delayed", due_ms=300),
            make_grant(3, "held", due_ms=500),
        ]
        board.keep_ready(claim, answers)
        assert claim.pool.due_ms == 300

    def test_a_locked_partition_is_tried_again_a_few_times(self) -> None:
        board, claim = self.make_claim(1)
        for _ in range(pop_board.TRIES_MAX - 1):
            board.keep_ready(claim, [])
            assert claim.pool.ready.pop(partition(1), "absent") is None
        board.keep_ready(claim, [])
        assert not claim.pool.ready

    def test_a_partition_by_name_that_gave_no_answer_is_looked_up_again(self) -> None:
        board, claim = self.make_claim(1, scope=Scope("orders", "p1"))
        claim.pool.resolved_tick = 5
        assert not board.keep_ready(claim, [])
        assert claim.pool.resolved_tick == -1
        assert not claim.pool.ready


class TestPoolsAreForgotten:
    def test_idle_pools_make_room_for_new_ones(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pop_board, "POOLS_MAX", 2)
        board = make_board()
        idle = mark(board, scope=Scope("idle"))
        waiter = submit(board, Scope("waited-for"))
        submit(board, Scope("new"))
        assert idle not in list(board.pools)
        assert board.pool_of(waiter.request).first() is waiter

    def test_a_pool_with_a_call_in_flight_is_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Its pop may come back without a partition, and then has to be found by the next push.
        monkeypatch.setattr(pop_board, "POOLS_MAX", 1)
        board = make_board()
        intention = submit(board)
        pool = mark(board, 1)
        (claim,), _ = plan(board)
        submit(board, Scope("other"))
        board.end([claim])
        intention.move(PopEvent.REFUSED)
        pool.add(intention)
        assert board.pool_of(intention.request) is pool
