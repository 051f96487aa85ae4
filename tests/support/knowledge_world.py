"""A pop board with its look-ups and calls, on top of the model of the database.

Look-ups run through the broker's own code; calls are planned and learnt from as the broker does it.
Whoever uses it says when a question is seen by the database and when its answer comes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from queenmq.engine.catalogue import Catalogue
from queenmq.engine.pop.board.decision import Assignment, Room
from queenmq.engine.pop.board.look_up import LookUp
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.calls import candidates_of
from queenmq.engine.pop.intention import Intention
from queenmq.engine.pop.machine import PopEvent
from queenmq.engine.pop.preflight import Preflight
from queenmq.engine.requests import (
    PartitionKey,
    PopCandidate,
    PopGrant,
    ResolveAsk,
    Scope,
    WalkAsk,
)
from queenmq.errors import StorageUnavailable
from tests.support import pops
from tests.support.model_database import (
    ModelDatabase,
    ModelPartition,
    ModelQueue,
    Transaction,
)
from tests.support.pops import OpenBoard


class Question:
    """A question of a look-up that waits to be seen by the database, and then to be answered."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer
        self.result: Any = None
        self.is_seen = False

    def __await__(self) -> Generator[Question, Any, Any]:
        return (yield self)

    def see(self) -> None:
        if not self.is_seen:
            self.result = self._answer()
            self.is_seen = True


class AskedStore:
    """The store's side of look-ups: every question is handed out."""

    def __init__(self, database: ModelDatabase) -> None:
        self._database = database
        #: Pairs that a look-up has time for.
        self.pairs_max = 99

    async def find_partitions(
        self, keys: Sequence[PartitionKey], *, limit_ms: int | None = None
    ) -> Any:
        refs = [one.ref for one in self._database.partitions]
        return await Question(lambda: [one for one in refs if one.key in keys])

    async def pop_sm_resolve(self, asks: Sequence[ResolveAsk], *, limit: int, limit_ms: int) -> Any:
        def act() -> Any:
            in_time = [self._database.resolve(one, limit=limit) for one in asks[: self.pairs_max]]
            return in_time + [None] * (len(asks) - len(in_time))

        return await Question(act)

    async def walk_partitions(self, asks: Sequence[WalkAsk], *, limit: int, limit_ms: int) -> Any:
        def act() -> Any:
            in_time = [self._database.walk_on(one) for one in asks[: self.pairs_max]]
            return in_time + [None] * (len(asks) - len(in_time))

        return await Question(act)

    async def find_news(
        self, queues: Sequence[str], horizons: Sequence[str], *, limit_ms: int
    ) -> Any:
        pairs = list(zip(queues, horizons, strict=True))
        return await Question(lambda: [self._database.find_news(*one) for one in pairs])

    async def has_pending_messages(self, asks: Sequence[ResolveAsk], *, limit_ms: int) -> Any:
        return await Question(lambda: [self._database.has_pending(one) for one in asks])


@dataclass(eq=False)
class Call:
    """A lease call on its way: first its snapshot is taken, then its locks, then it answers."""

    assignments: list[Assignment]
    candidates: list[PopCandidate]
    seen: dict[UUID, int] | None = None
    rows: list[PopGrant] | None = None


class KnowledgeWorld:
    """Three partitions in one queue, two in another, and a pool per scope and group."""

    def __init__(
        self, scopes: Iterable[Scope], groups: Iterable[str], *, page: int = 1_000
    ) -> None:
        self.database = ModelDatabase()
        self.board = OpenBoard(Room(requests=3, candidates=4, messages=20), page=page)
        self._store = AskedStore(self.database)
        self._preflight = Preflight(
            self._store,
            Catalogue(self._store, lock_timeout_ms=1, wait_ms=1),
            page=page,
        )
        self.calls: list[Call] = []
        self._current: LookUp
        self.look_up: Coroutine[Any, Any, None] | None = None
        self.question: Question | None = None
        queues = [ModelQueue("orders", "shop", 1), ModelQueue("mails", "shop", 2)]
        self.database.partitions += [
            ModelPartition(pops.partition(number + 1), queues[number // 3], f"p{number}")
            for number in range(5)
        ]
        for scope in scopes:
            for group in groups:
                self.board.state.pools.get_or_add(scope, group)

    # Pushes.

    def end(self, transaction: Transaction, *, is_here: bool) -> None:
        """The transaction is committed; here, or at another broker."""
        self.database.commit(transaction)
        if is_here:
            for one, _ in transaction.pushes:
                self.hear_of_push(one)

    def hear_of_push(self, one: ModelPartition) -> None:
        ref = one.ref
        for pool in self.board.state.pools.touched_by(
            ref.key, namespace=ref.namespace, task=ref.task
        ):
            self.board.state.add_ready(pool, one.id)

    # Pops.

    def submit(self, scope: Scope, group: str, **more: Any) -> Intention:
        if scope.partition is not None:
            # A remembered partition is tried without a look-up.
            pool = self.board.state.pools.get_or_add(scope, group)
            (named,) = self.database.in_scope(scope)
            pool.mark_ready(named.id)
            pool.resolved_tick = self.board.tick + 1
            more["partitions"] = 1
        return pops.submit(self.board, scope, group=group, **more)

    def leave(self, pool: Pool, intention: Intention) -> None:
        pool.remove(intention)
        intention.move(PopEvent.CALLER_LEFT, 0)

    def plan(self) -> None:
        if assignments := self.board.plan(0).assignments:
            self.calls.append(Call(assignments, candidates_of(assignments)))

    def see(self, call: Call) -> None:
        if call.seen is None:
            call.seen = self.database.see(call.candidates)

    def lease(self, call: Call, locked: Collection[UUID] = ()) -> None:
        self.see(call)
        if call.rows is None:
            assert call.seen is not None
            call.rows = self.database.take(call.candidates, call.seen, locked)

    def conclude(self, call: Call) -> None:
        assert call.rows is not None
        self.calls.remove(call)
        self.board.end(call.assignments)
        for number, one in enumerate(call.assignments, 1):
            mine = [row for row in call.rows if row.request == number]
            self.board.learn(one, mine, 0)
            if any(row.outcome == "granted" for row in mine):
                one.intention.move(PopEvent.GRANTED, 0)
            else:
                self._put_back(one, PopEvent.REFUSED)

    def break_call(self, call: Call, *, comes_back: bool) -> None:
        """Report an error to the broker, whether or not the call was committed."""
        self.calls.remove(call)
        self.board.end(call.assignments)
        for one in call.assignments:
            one.pool.doubt()
            if comes_back:
                self._put_back(one, PopEvent.BROKEN)
            else:
                one.intention.move(PopEvent.ERROR, 0)

    def _put_back(self, one: Assignment, event: PopEvent) -> None:
        one.intention.move(event, 0)
        one.pool.add(one.intention)
        self.board.state.dirty[one.pool] = None

    def trying(self, pool: Pool) -> set[UUID]:
        """The partitions of a pool that are in its calls."""
        assignments = [one for call in self.calls for one in call.assignments]
        return {id_ for one in assignments if one.pool is pool for id_ in one.partition_ids}

    # Look-ups.

    def begin_look_up(self, pools: Iterable[Pool], *, pairs_max: int = 99) -> None:
        self._store.pairs_max = pairs_max
        self._current = self.board.begin_look_up(pools)
        self.look_up = self._preflight.run(self._current)
        self.resume_look_up()

    def limit_pairs(self, pairs_max: int) -> None:
        """Set for how many places the next question has time."""
        self._store.pairs_max = pairs_max

    def resume_look_up(self) -> None:
        """Answer the question at hand; the next one, if any, waits then."""
        assert self.look_up is not None
        try:
            self.question = self.look_up.send(self.question and self.question.result)
        except StopIteration:
            self.board.looked_up(self._current, 0)
            self.look_up = self.question = None

    def fail_look_up(self) -> None:
        assert self.look_up is not None
        try:
            self.look_up.throw(OSError("the database went away"))
        except OSError:
            self.board.look_up_failed(self._current, StorageUnavailable("away"), 0)
        self.look_up = self.question = None

    def look_up_now(self, pools: Iterable[Pool]) -> None:
        """A look-up without anything in between."""
        self.begin_look_up(pools)
        while self.question is not None:
            self.question.see()
            self.resume_look_up()

    # The end of a story.

    def finish(self) -> None:
        """Whatever is on its way ends; then a look-up has found all there is, or it must be asked
        to search everything.
        """
        if self.look_up is not None:
            self.fail_look_up()
        for call in list(self.calls):
            self.lease(call)
            self.conclude(call)
        for transaction in list(self.database.open):
            self.database.commit(transaction)
        pools = [one for one in self.board.state.pools if not one.is_specific]
        for pool in pools:
            pool.poll_ms = 0.0
        self.look_up_now(pools)
        for pool in pools:
            for one in self.database.in_scope(pool.scope):
                if pool.horizon is not None and one.undelivered(pool.consumer_group):
                    is_free = self.database.is_free(one, pool.consumer_group)
                    assert one.id in (pool.ready if is_free else {*pool.ready, *pool.held})
