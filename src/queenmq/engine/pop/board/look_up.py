"""One look-up: questions to the database, and what their answers mean for the pools.

Pure: no clock, no I/O.

All idle pools of a queue share one question: what is new? Only the pools that the news concerns are
looked up. For other pools that have been quiet for a while, the cheaper question comes first: is
there anything at all? A pool with a horizon is looked up from there on. A pool without one gets a
full search. A queue that has too many partitions for that is walked through, a slice per look-up:
see `walk.py`. So is any queue that was not fully searched for long.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import Any, NamedTuple, Protocol

from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.board.walk import Walk
from queenmq.engine.pop.board.walking import ask_slice, begin_check, is_check_due, learn_slice
from queenmq.engine.pop.intention import Intention
from queenmq.engine.pop.machine import PopEvent, PopState
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.requests import News, PartitionKey, ResolveAsk, WalkAsk

#: Pools polled at this interval or slower get the cheaper question first ...
_QUIET_MS = 500
#: ... but not forever, because a look-up also advances the horizon.
_MISSES_MAX = 8
#: A look-up that took too long gets this many times as long. The factor is large, because the time
#: of earlier tries is lost: a queue of millions of partitions takes seconds to search.
PATIENCE = 16


class FindNews(NamedTuple):
    """Ask what is new in these queues since these horizons. The answer is a News for each."""

    queues: list[str]
    horizons: list[str]


class FindPartitions(NamedTuple):
    """Ask for the ids of these partitions. The catalogue remembers the answer."""

    keys: set[PartitionKey]


class HasPending(NamedTuple):
    """Ask whether there is anything at all. The answer is a bool for each."""

    asks: list[ResolveAsk]


class WalkOn(NamedTuple):
    """Ask for the next slice. The answer is a Slice for each, or None when time ran out."""

    asks: list[WalkAsk]


class Resolve(NamedTuple):
    """Ask which partitions have work. The answer is a Resolved each, or None if time ran out."""

    asks: list[ResolveAsk]


Question = FindNews | FindPartitions | HasPending | WalkOn | Resolve


class Reply(NamedTuple):
    """An answer, when its question was asked, and when it came."""

    value: Any
    asked_at_ms: float
    now_ms: float


class Listener(Protocol):
    """The board, as a look-up sees it."""

    def rest(self, pool: Pool) -> None:
        """Note that the pool has nothing now."""

    def note_news(self, pool: Pool) -> None:
        """Note that the pool may have more to try."""

    def note_learnt(self, pool: Pool, due_at_ms: float | None) -> None:
        """Note that the pool has learnt something, and perhaps when its next message is due."""

    def put_first(self, pools: Collection[Pool]) -> None:
        """Time ran out before these pools. They come first in the next look-up."""


class LookUp:
    """Asks its questions one after the other and updates its pools with the answers."""

    def __init__(
        self,
        pools: list[Pool],
        listener: Listener,
        metrics: PopMetrics,
        *,
        tick: int,
        page: int,
        is_checking: bool,
        limit_ms: int,
        is_apart: bool = False,
        now_ms: float,
    ) -> None:
        self.pools = pools
        #: The pools that nothing was found out about yet.
        self.unanswered = dict.fromkeys(pools)
        #: How long each question may take; and whether that is more than usual, because the one
        #: before took too long.
        self.limit_ms = limit_ms
        self.is_apart = is_apart
        self.members = frozenset(pools)
        self._listener = listener
        self._metrics = metrics
        self.tick = tick
        self._page = page
        self._is_checking = is_checking
        self.began_at_ms = now_ms
        self._began = self._begin()

    def _begin(self) -> list[Intention]:
        began = [
            intention
            for pool in self.pools
            for intention in pool.not_looked_up()
            if intention.state is PopState.PENDING
        ]
        for intention in began:
            intention.move(PopEvent.LOOK_UP, self.began_at_ms)
        return began

    def end(self, now_ms: float) -> None:
        """Make the pops wait again for the result."""
        for intention in self._began:
            if intention.state is PopState.RESOLVING:
                intention.move(PopEvent.LOOKED_UP, now_ms)

    def questions(self) -> Generator[Question, Reply, None]:
        """Yield each question and receive its reply through `send`."""
        calm = {pool: None for pool in self.pools if self._is_calm(pool)}
        concerned = yield from self._with_news(list(calm))
        asked = [pool for pool in self.pools if pool not in calm or pool in concerned]
        # Named partitions are remembered, so that the next pop needs no look-up.
        if keys := {pool.scope.partition_key for pool in asked if pool.is_specific}:
            yield FindPartitions(keys)
        quiet = {pool: None for pool in asked if pool not in calm and self._is_quiet(pool)}
        hits = yield from self._with_work(list(quiet))
        asked = [pool for pool in asked if pool not in quiet or pool in hits]
        if asked:
            yield from self._search(asked)

    def _is_calm(self, pool: Pool) -> bool:
        return self._is_checking and not self._is_old(pool) and pool.is_calm()

    def _is_old(self, pool: Pool) -> bool:
        return is_check_due(pool, self.began_at_ms)

    def _with_news(self, pools: list[Pool]) -> Generator[Question, Reply, set[Pool]]:
        """Return the pools that the news concerns. The others have seen everything."""
        by_queue: dict[str, list[Pool]] = {}
        doubts = {}
        for pool in pools:
            by_queue.setdefault(pool.scope.queue or "", []).append(pool)
            doubts[pool] = pool.doubts
            # Facts learnt from now on are newer than the answer.
            pool.is_woken = False
        if not by_queue:
            return set()
        horizons = [
            min((one.horizon or "0" for one in group), key=int) for group in by_queue.values()
        ]
        reply = yield FindNews(list(by_queue), horizons)
        concerned: set[Pool] = set()
        for group, news in zip(by_queue.values(), reply.value, strict=True):
            for pool in group:
                if concerns(pool, news):
                    concerned.add(pool)
                else:
                    # A doubt that arose meanwhile may concern something that is not new.
                    if pool.doubts == doubts[pool]:
                        pool.horizon = news.horizon
                    self._rest(pool, reply)
        self._metrics.note_check(len(pools), len(concerned))
        return concerned

    def _is_quiet(self, pool: Pool) -> bool:
        return (
            self._is_checking
            and pool.poll_ms >= _QUIET_MS
            and not pool.is_woken
            and pool.misses < _MISSES_MAX
            and pool.is_exhausted()
            # The check would be a search of the whole queue.
            and not (pool.may_walk and (pool.horizon is None or self._is_old(pool)))
        )

    def _with_work(self, pools: list[Pool]) -> Generator[Question, Reply, set[Pool]]:
        """Return the pools that have something to deliver. The others wait for their next poll."""
        if not pools:
            return set()
        reply = yield HasPending([self._ask(pool) for pool in pools])
        hits = {pool for pool, has_work in zip(pools, reply.value, strict=True) if has_work}
        self._metrics.note_check(len(pools), len(hits))
        for pool in pools:
            if pool not in hits:
                pool.misses += 1
                self._rest(pool, reply)
        return hits

    def _ask(self, pool: Pool) -> ResolveAsk:
        horizon = pool.walk.horizon if pool.walk and pool.is_walking else pool.horizon
        if pool.is_specific or horizon is None or (self._is_old(pool) and not pool.may_walk):
            return ResolveAsk(pool.scope, pool.consumer_group, None, ())
        return ResolveAsk(pool.scope, pool.consumer_group, horizon, tuple(pool.held))

    def _search(self, pools: list[Pool]) -> Generator[Question, Reply, None]:
        asks = [self._ask(pool) for pool in pools]
        sent = [(tuple(pool.held), pool.doubts) for pool in pools]
        for pool in pools:
            # Facts learnt from now on are newer than the answer.
            pool.due_at_ms = None
            pool.is_woken = False
        reply = yield Resolve(asks)
        reached = [result for result in reply.value if result is not None]
        found = sum(len(result.partition_ids) for result in reached)
        took_ms = reply.now_ms - reply.asked_at_ms
        self._metrics.note_look_up(len(reached), found, took_ms=took_ms)
        unreached: list[Pool] = []
        walks: dict[Pool, tuple[Walk, WalkAsk, float | None]] = {}
        for pool, ask, (held, doubts), result in zip(pools, asks, sent, reply.value, strict=True):
            if result is None:
                unreached.append(pool)
                continue
            is_cut = not result.is_complete and len(result.partition_ids) >= self._page
            asked_at_ms = reply.asked_at_ms
            pool.learn(
                result, held, tick=self.tick, doubts=doubts, is_cut=is_cut, now_ms=asked_at_ms
            )
            if ask.horizon is None and pool.walk is None:
                pool.full_at_ms = asked_at_ms
            if pool.may_walk and pool.walk is None and pool.horizon and self._is_old(pool):
                begin_check(pool, tick=self.tick, now_ms=asked_at_ms)
            if next_slice := ask_slice(pool):
                walks[pool] = (*next_slice, result.next_due_ms)
                # It may have found something already, should the slice fail.
                self._listener.note_news(pool)
            else:
                self._learnt(pool, result.next_due_ms, reply)
        if unreached:
            self._metrics.note_timeout()
        self._put_first(unreached)
        if walks:
            yield from self._walk_on(walks)

    def _walk_on(
        self, walks: dict[Pool, tuple[Walk, WalkAsk, float | None]]
    ) -> Generator[Question, Reply, None]:
        reply = yield WalkOn([ask for _, ask, _ in walks.values()])
        took_ms = reply.now_ms - reply.asked_at_ms
        reached = [part for part in reply.value if part is not None]
        found = sum(len(part.partition_ids) for part in reached)
        self._metrics.note_look_up(len(reached), found, took_ms=took_ms)
        unreached: list[Pool] = []
        for (pool, (walk, _, due_ms)), part in zip(walks.items(), reply.value, strict=True):
            if part is None:
                unreached.append(pool)
            else:
                learn_slice(pool, walk, part, tick=self.tick, took_ms=took_ms / len(reached))
                dues = [one for one in (due_ms, part.next_due_ms) if one is not None]
                due_ms = min(dues, default=None)
            self._learnt(pool, due_ms, reply)
        # They come first in the next look-up, so that each walk has its turn.
        self._listener.put_first(unreached)

    def _rest(self, pool: Pool, reply: Reply) -> None:
        self._note_answered(pool, reply)
        self._listener.rest(pool)

    def _put_first(self, pools: Collection[Pool]) -> None:
        for pool in pools:
            del self.unanswered[pool]
        self._listener.put_first(pools)

    def _learnt(self, pool: Pool, next_due_ms: float | None, reply: Reply) -> None:
        self._note_answered(pool, reply)
        pool.misses = 0
        due_at_ms = None if next_due_ms is None else reply.now_ms + next_due_ms
        self._listener.note_learnt(pool, due_at_ms)

    def _note_answered(self, pool: Pool, reply: Reply) -> None:
        del self.unanswered[pool]
        if PATIENCE * (reply.now_ms - reply.asked_at_ms) < self.limit_ms:
            # The time before would have been enough.
            pool.slowness = max(0, pool.slowness - 1)


def concerns(pool: Pool, news: News) -> bool:
    """Return whether something new in its queue may have brought work to this pool."""
    if news.is_changed or not pool.is_specific:
        return news.is_changed or bool(news.partition_names)
    return pool.scope.partition in news.partition_names
