"""A broker's knowledge of partitions against a model of the database.

The promise: while a pool has a horizon, every partition with messages for its group is ready, held
or in a call of the pool, or the next look-up finds it by itself, because a transaction at or above
the horizon wrote to it. It has to hold whatever happens between the question and the answer of
look-ups and calls, and whoever else pushes, pops, acks or changes a queue meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given, note, settings

from queenmq.engine.pop.board import pool as pool_module
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.requests import PopCandidate, Scope
from queenmq.ids import random_uuid
from tests.support.knowledge_world import KnowledgeWorld
from tests.support.model_database import ModelPartition
from tests.support.pops import partition

#: Whoever takes any partition of a queue, of several queues, or one by name.
SCOPES = (Scope("orders"), Scope(namespace="shop"), Scope("orders", "p0"))
GROUPS = ("a", "b")
NAMESPACES = ("shop", "office")


class Story(KnowledgeWorld):
    """A world in which each step is told by four numbers: what happens, and to whom."""

    def __init__(self, *, page: int, whole_max: int) -> None:
        super().__init__(SCOPES, GROUPS, page=page)
        self.database.whole_max = whole_max
        # What happens, and how often.
        happenings: dict[Callable[[int, int, int], None], int] = {
            self.nothing: 1,
            self.someone_pushes: 6,
            self.someone_begins_a_transaction: 2,
            self.someone_pushes_in_a_transaction: 3,
            self.a_transaction_ends: 4,
            self.late_news_of_a_push: 1,
            self.someone_configures_a_queue: 1,
            self.messages_are_deleted: 1,
            self.another_broker_pops: 4,
            self.a_lease_ends: 8,
            self.a_message_is_to_be_retried: 1,
            self.a_partition_is_blocked_or_not: 1,
            self.time_passes: 3,
            self.a_pop_comes: 10,
            self.a_caller_leaves: 1,
            self.the_board_plans: 10,
            self.a_call_takes_its_snapshot: 3,
            self.a_call_leases: 8,
            self.a_call_answers: 8,
            self.a_call_breaks: 1,
            self.a_look_up_begins: 8,
            self.a_look_up_is_seen: 8,
            self.a_look_up_answers: 8,
            self.a_look_up_fails: 1,
            self.a_pool_has_been_quiet: 1,
        }
        if whole_max == 0:
            # A walk takes several look-ups, and seldom comes to its end if they are rare.
            happenings |= {self.a_look_up_begins: 30, self.a_look_up_is_seen: 60}
            happenings |= {self.a_look_up_answers: 60}
        self.table = [one for one, times in happenings.items() for _ in range(times)]

    def tell(self, story: bytes) -> None:
        for at in range(0, len(story) - 3, 4):
            what, *whom = story[at : at + 4]
            happening = self.table[what % len(self.table)]
            happening(*whom)
            if what % len(self.table):
                note(f"{happening.__name__}{tuple(whom)}")
            self.check()

    def pick(self, share: int) -> ModelPartition:
        return self.database.partitions[share % len(self.database.partitions)]

    def group(self, share: int) -> str:
        return GROUPS[share % len(GROUPS)]

    def nothing(self, *_: int) -> None:
        pass

    # Producers.

    def someone_begins_a_transaction(self, *_: int) -> None:
        if len(self.database.open) < 2:
            self.database.begin()

    def someone_pushes_in_a_transaction(self, which: int, where: int, count: int) -> None:
        if self.database.open:
            transaction = self.database.open[which % len(self.database.open)]
            one = self.pick(where)
            if self.database.holder(one) in (None, transaction):
                transaction.pushes.append((one, 1 + count % 3))

    def someone_pushes(self, where: int, count: int, is_here: int) -> None:
        one = self.pick(where)
        if self.database.holder(one) is None:
            transaction = self.database.begin()
            transaction.pushes.append((one, 1 + count % 3))
            self.end(transaction, is_here=bool(is_here % 2))

    def a_transaction_ends(self, which: int, how: int, is_here: int) -> None:
        if self.database.open:
            transaction = self.database.open[which % len(self.database.open)]
            if how % 4:
                self.end(transaction, is_here=bool(is_here % 2))
            else:
                self.database.rollback(transaction)

    def late_news_of_a_push(self, where: int, *_: int) -> None:
        self.hear_of_push(self.pick(where))

    def someone_configures_a_queue(self, which: int, where: int, namespace: int) -> None:
        if self.database.open:
            transaction = self.database.open[which % len(self.database.open)]
            change = (self.pick(where).queue, NAMESPACES[namespace % 2])
            transaction.namespaces.append(change)

    def messages_are_deleted(self, where: int, count: int, _: int) -> None:
        one = self.pick(where)
        first = min(one.rows, default=0)
        one.rows = {seq: xid for seq, xid in one.rows.items() if seq > first + count % 4}

    # Other consumers, and time.

    def another_broker_pops(self, where: int, whose: int, how: int) -> None:
        lease_id, is_auto_ack = random_uuid(), bool(how & 4)
        wanted = [
            PopCandidate(
                1, self.pick(where).id, self.group(whose), 1 + how % 3, is_auto_ack, lease_id
            )
        ]
        self.database.take(wanted, self.database.see(wanted))

    def a_lease_ends(self, where: int, whose: int, how: int) -> None:
        one, group = self.pick(where), self.group(whose)
        if self.database.end_lease(one, group, is_acked=bool(how & 1)) and how & 2:
            filters = (one.queue.namespace, "")
            self.board.free(one.id, one.ref.key, group, filters)

    def a_message_is_to_be_retried(self, where: int, whose: int, ms: int) -> None:
        one, group = self.pick(where), self.group(whose)
        self.database.end_lease(one, group, is_acked=False)
        one.cursor(group).retry_at = self.database.now + ms % 4

    def a_partition_is_blocked_or_not(self, where: int, whose: int, how: int) -> None:
        self.pick(where).cursor(self.group(whose)).is_blocked = how % 3 == 0

    def time_passes(self, ms: int, *_: int) -> None:
        self.database.now += 1 + ms % 3

    # Our own pops.

    def a_pop_comes(self, which: int, whose: int, how: int) -> None:
        self.submit(
            SCOPES[which % len(SCOPES)],
            self.group(whose),
            partitions=1 + how % 3,
            batch=1 + (how >> 2) % 4,
            is_auto_ack=bool(how & 16),
        )

    def a_caller_leaves(self, which: int, *_: int) -> None:
        waiting = [(pool, one) for pool in self.board.state.pools for one in pool.waiting()]
        if waiting:
            self.leave(*waiting[which % len(waiting)])

    def the_board_plans(self, *_: int) -> None:
        self.plan()

    def a_call_takes_its_snapshot(self, which: int, *_: int) -> None:
        if self.calls:
            self.see(self.calls[which % len(self.calls)])

    def a_call_leases(self, which: int, locked: int, how: int) -> None:
        if self.calls:
            rows: set[UUID] = {partition(1 + locked % 5)} if how % 4 == 0 else set()
            self.lease(self.calls[which % len(self.calls)], rows)

    def a_call_answers(self, which: int, *_: int) -> None:
        done = [one for one in self.calls if one.rows is not None]
        if done:
            self.conclude(done[which % len(done)])

    def a_call_breaks(self, which: int, how: int, _: int) -> None:
        if self.calls:
            self.break_call(self.calls[which % len(self.calls)], comes_back=bool(how % 2))

    # Look-ups, one at a time.

    def a_look_up_begins(self, which: int, pairs: int, is_old: int) -> None:
        if self.look_up is None:
            pools = list(self.board.state.pools)
            wanted = [pool for at, pool in enumerate(pools) if which >> at & 1] or pools[:4]
            for pool in wanted:
                # Now and then a whole search in spite of the horizon.
                pool.full_at_ms = float("-inf") if is_old % 8 == 0 else float("inf")
            self.begin_look_up(wanted, pairs_max=1 + pairs % 6)

    def a_look_up_is_seen(self, *_: int) -> None:
        if self.question is not None:
            self.question.see()

    def a_look_up_answers(self, *_: int) -> None:
        if self.question is not None and self.question.is_seen:
            self.resume_look_up()

    def a_look_up_fails(self, *_: int) -> None:
        if self.look_up is not None:
            self.fail_look_up()

    def a_pool_has_been_quiet(self, which: int, is_quiet: int, _: int) -> None:
        pools = list(self.board.state.pools)
        pools[which % len(pools)].poll_ms = 600.0 if is_quiet % 2 else 0.0

    # The promise.

    def check(self) -> None:
        assert self.board.double_assignments == 0
        for pool in self.board.state.pools:
            assert len(pool.ready) <= pool_module.READY_MAX
            assert len(pool.held) <= pool_module.HELD_MAX
            if pool.horizon is not None:
                lost = [one.name for one in self.missing(pool, int(pool.horizon))]
                assert not lost, f"{pool.key} has lost {lost}"

    def missing(self, pool: Pool, horizon: int) -> list[ModelPartition]:
        """Partitions with messages for the pool's group that it would never find."""
        known = {*pool.ready, *pool.held, *self.trying(pool)}
        return [
            one
            for one in self.database.in_scope(pool.scope)
            if one.id not in known
            and one.undelivered(pool.consumer_group)
            and one.queue.changed_xid < horizon
            and not any(xid >= horizon for xid in one.rows.values())
        ]


@pytest.mark.parametrize(
    ("bound", "page", "whole_max"),
    [
        pytest.param(100, 100, 99, id="ample"),
        pytest.param(2, 2, 99, id="tight"),
        pytest.param(100, 1, 99, id="cut"),
        pytest.param(100, 100, 0, id="walked"),
        pytest.param(2, 2, 0, id="walked with little memory"),
    ],
)
def test_no_partition_with_messages_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, bound: int, page: int, whole_max: int
) -> None:
    monkeypatch.setattr(pool_module, "READY_MAX", bound)
    monkeypatch.setattr(pool_module, "HELD_MAX", bound)
    monkeypatch.setattr(pool_module, "PRUNE_MIN", bound)

    @given(st.binary(min_size=1_600, max_size=1_600))
    @settings(max_examples=150)
    def run(story: bytes) -> None:
        world = Story(page=page, whole_max=whole_max)
        world.tell(story)
        world.finish()

    run()
