"""The whole pop path on the model of the database, and a world around it that a test moves.

After every step it checks that nobody is told that there is nothing while there is something for
them all the time; at the end, that nobody who waits is forgotten and nothing is left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

from hypothesis import note

from queenmq.engine import catalogue
from queenmq.engine.ack import leases as lease_service
from queenmq.engine.ack.leases import LeaseService
from queenmq.engine.calls import lock_queues
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.news import News
from queenmq.engine.pop import calls as pop_calls
from queenmq.engine.pop import desk as pop_desk
from queenmq.engine.pop import preflight
from queenmq.engine.pop import service as pop_service
from queenmq.engine.pop.board.actions import Lease
from queenmq.engine.pop.board.decision import Room
from queenmq.engine.pop.board.limits import BoardLimits
from queenmq.engine.pop.intention import Intention
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.pop.service import PopLimits, PopService
from queenmq.engine.requests import PopCandidate, PopRequest, Scope
from queenmq.errors import PartitionBusy, StorageUnavailable
from queenmq.ids import random_uuid
from queenmq.metrics.registry import Registry
from tests.support.model_database import ModelDatabase, ModelPartition, ModelQueue
from tests.support.model_store import ModelStore, StillLoop
from tests.support.pops import partition

GROUPS = ("a", "b")
SCOPES = (Scope("orders"), Scope(namespace="shop"), Scope("orders", "p0"), Scope("orders", "p1"))
LIMITS = PopLimits(
    board=BoardLimits(
        room=Room(requests=3, candidates=4, messages=20),
        look_up_pools_max=3,
        # Fewer than there are: what is found comes in pages.
        page=2,
        is_checking=True,
        look_up_limit_ms=50,
        look_up_interval_ms=100,
    ),
    slots=2,
    apart_count=2,
    waiting_max=1_000,
    min_interval_ms=100,
    max_interval_ms=1_000,
    listening_interval_ms=5_000,
)
LEASE_MS = 700
#: Whoever reads the clock.
MODULES = (catalogue, lock_queues, lease_service, pop_calls, pop_desk, pop_service, preflight)


class Story:
    """A broker's pop path, and a world around it; each step is told by four numbers."""

    def __init__(self, loop: StillLoop) -> None:
        self.loop = loop
        self.database = ModelDatabase()
        self.database.lease_time = LEASE_MS
        queues = [ModelQueue("orders", "shop", 1), ModelQueue("mails", "shop", 2)]
        self.database.partitions += [
            ModelPartition(partition(number + 1), queues[number // 3], f"p{number}")
            for number in range(4)
        ]
        self.store = ModelStore(self.database)
        memory = Catalogue(self.store, lock_timeout_ms=1, wait_ms=1)
        metrics = PopMetrics(Registry(), slots=LIMITS.slots)
        leases = LeaseService(self.store, lock_timeout_ms=1, wait_ms=1_000)
        self.service = PopService(self.store, leases, memory, metrics, LIMITS, news=News())
        #: The last call of each pop: its number, group and partitions.
        self.tried: dict[int, tuple[str, list[UUID]]] = {}
        self.follow_calls()
        self.asked: list[Intention] = []
        #: What was there for a pop that may not wait, from its start until now.
        self.there: dict[Intention, set[UUID]] = {}
        self.defects: list[dict[str, object]] = []
        loop.set_exception_handler(lambda _, context: self.defects.append(context))
        happenings: dict[Callable[[int, int, int], None], int] = {
            self.nothing: 1,
            self.someone_pushes: 8,
            self.a_transaction_begins: 1,
            self.a_transaction_ends: 3,
            self.messages_are_deleted: 1,
            self.another_broker_pops: 3,
            self.a_lease_ends: 8,
            self.a_pop_comes: 14,
            self.a_caller_leaves: 2,
            self.a_call_is_done: 8,
            self.a_call_is_answered: 20,
            self.a_call_fails: 1,
            self.time_passes: 8,
        }
        self.table = [one for one, times in happenings.items() for _ in range(times)]

    def follow_calls(self) -> None:
        lease = self.service._carriers[Lease]

        def followed(action: Lease) -> None:
            for one in action.assignments:
                self.tried[one.intention.number] = (one.pool.consumer_group, one.partition_ids)
            lease(action)

        self.service._carriers[Lease] = followed

    def tell(self, story: bytes) -> None:
        for at in range(0, len(story) - 3, 4):
            what, *whom = story[at : at + 4]
            happening = self.table[what % len(self.table)]
            if what % len(self.table):
                note(f"{happening.__name__}{tuple(whom)}")
            happening(*whom)
            self.go_on()

    def go_on(self) -> None:
        self.database.now = int(self.loop.now_ms())
        self.watch()
        self.loop.spin()
        for intention in list(self.there):
            self.check_answer(intention)
        assert not self.defects, self.defects

    # Who is told what.

    def deliverable(self, request: PopRequest) -> set[UUID]:
        group = request.consumer_group
        return {
            one.id
            for one in self.database.in_scope(request.scope)
            if one.undelivered(group) and self.database.is_free(one, group)
        }

    def watch(self) -> None:
        for intention, there in self.there.items():
            there &= self.deliverable(intention.request)

    def check_answer(self, intention: Intention) -> None:
        if not intention.answer.done():
            return
        there = self.there.pop(intention) - self.going_to_others(intention)
        is_empty = intention.answer.exception() is None and not intention.answer.result().grants
        if is_empty and intention.answer.result().reason != "caller_left":
            names = [one.name for one in self.database.partitions if one.id in there]
            assert not names, f"{intention.request} got nothing while {names} had messages for it"

    def going_to_others(self, intention: Intention) -> set[UUID]:
        """Return partitions that later pops get while this one is away in a call."""
        in_calls = {number for pool in self.service._board._state.pools for number in pool.claims}
        return {
            one
            for number, (group, partition_ids) in self.tried.items()
            if number in in_calls
            and number > intention.number
            and group == intention.request.consumer_group
            for one in partition_ids
        }

    # What happens.

    def pick(self, share: int) -> ModelPartition:
        return self.database.partitions[share % len(self.database.partitions)]

    def nothing(self, *_: int) -> None:
        pass

    def someone_pushes(self, where: int, count: int, how: int) -> None:
        one = self.pick(where)
        if self.database.holder(one) is None:
            transaction = self.database.begin()
            transaction.pushes.append((one, 1 + count % 4))
            self.database.commit(transaction)
            self.tell_of_push(one, how)

    def tell_of_push(self, one: ModelPartition, how: int) -> None:
        """Here, by a notification, or not at all."""
        if how % 4 < 2:
            self.call_in_loop(lambda: self.service.pushed([one.ref]))
        elif how % 4 == 2:
            self.call_in_loop(lambda: self.service.pushed_elsewhere([one.queue.name]))

    def call_in_loop(self, act: Callable[[], object]) -> None:
        self.loop.call_soon(act)

    def a_transaction_begins(self, where: int, count: int, _: int) -> None:
        one = self.pick(where)
        if len(self.database.open) < 2 and self.database.holder(one) is None:
            self.database.begin().pushes.append((one, 1 + count % 3))

    def a_transaction_ends(self, which: int, how: int, _: int) -> None:
        if self.database.open:
            transaction = self.database.open[which % len(self.database.open)]
            self.database.commit(transaction)
            for one, _ in transaction.pushes:
                self.tell_of_push(one, how)

    def messages_are_deleted(self, where: int, count: int, _: int) -> None:
        one = self.pick(where)
        first = min(one.rows, default=0)
        one.rows = {seq: xid for seq, xid in one.rows.items() if seq > first + count % 4}

    def another_broker_pops(self, where: int, whose: int, how: int) -> None:
        place, group, lease_id = self.pick(where).id, GROUPS[whose % 2], random_uuid()
        wanted = [PopCandidate(1, place, group, 1 + how % 3, bool(how & 4), lease_id)]
        self.database.take(wanted, self.database.see(wanted))

    def a_lease_ends(self, where: int, whose: int, how: int) -> None:
        one, group = self.pick(where), GROUPS[whose % 2]
        # Nobody ends a lease before its holder has heard of it.
        if one.id in self.service._board._state.claiming:
            return
        if self.database.end_lease(one, group, is_acked=bool(how & 3)) and how & 4:
            self.call_in_loop(lambda: self.service.freed(one.id, one.ref.key, group))

    def a_pop_comes(self, which: int, whose: int, how: int) -> None:
        scope = SCOPES[which % len(SCOPES)]
        request = PopRequest(
            scope,
            GROUPS[whose % 2],
            batch=1 + how % 4,
            partitions=1 if scope.partition else 1 + (how >> 2) % 3,
            is_auto_ack=bool(how & 16),
            wait_ms=(None, None, 300, 60_000)[how >> 5 & 3],
        )
        self.database.now = int(self.loop.now_ms())

        async def submit() -> None:
            intention = self.service.submit(request)
            self.asked.append(intention)
            if request.wait_ms is None:
                self.there[intention] = self.deliverable(request)

        self.loop.run_until_complete(submit())

    def a_caller_leaves(self, which: int, *_: int) -> None:
        open_ = [one for one in self.asked if not one.answer.done()]
        if open_:
            self.call_in_loop(lambda: self.service.leave(open_[which % len(open_)]))

    def a_call_is_done(self, which: int, *_: int) -> None:
        waiting = [one for one in self.store.calls if not one.is_done]
        if waiting:
            waiting[which % len(waiting)].do()

    def a_call_is_answered(self, which: int, *_: int) -> None:
        if self.store.calls:
            self.store.calls[which % len(self.store.calls)].answer()

    def a_call_fails(self, which: int, how: int, _: int) -> None:
        if self.store.calls:
            error = (StorageUnavailable if how % 2 else PartitionBusy)("no luck")
            self.store.calls[which % len(self.store.calls)].fail(error)

    def time_passes(self, ms: int, *_: int) -> None:
        if not any(call.is_done for call in self.store.calls):
            self.loop.pass_ms(1 + ms * 2)

    # The end.

    def finish(self) -> None:
        """From now on all goes well; then whoever can be served has been."""
        for transaction in list(self.database.open):
            self.database.commit(transaction)
        for _ in range(100):
            for call in list(self.store.calls):
                call.answer()
                self.go_on()
            self.go_on()
            self.loop.pass_ms(50)
        forgotten = list(self.forgotten())
        assert not forgotten, f"these wait in vain: {forgotten}"
        for pool in self.service._board._state.pools:
            assert not pool.claims and not pool.reads
        assert not self.service._board._state.claiming
        self.drain()

    def forgotten(self) -> Iterator[PopRequest]:
        for intention in self.asked:
            if not intention.answer.done() and (
                intention.request.wait_ms is None or self.deliverable(intention.request)
            ):
                yield intention.request

    def drain(self) -> None:
        draining = self.loop.create_task(self.service.drain())
        while not draining.done():
            for call in list(self.store.calls):
                call.answer()
            self.go_on()
        assert all(one.answer.done() and one.is_final for one in self.asked)
        assert self.service._desk._inside == 0
