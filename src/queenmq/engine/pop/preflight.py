"""The look-up for waiting pops: one query for all pools that need one.

All idle pools of a queue share one look at what is new in it; only those it concerns are looked up.
Other pools that have been quiet for a while are first asked the cheaper question whether there is
anything at all. A pool that knows its horizon is looked up from there on; one that does not, or has
not been for long, is searched whole. Where that finds more than it may bring, the queue is then
gone through page by page, so that catching up costs the same however many partitions there are.
"""

from __future__ import annotations

from itertools import islice
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.pop.board import PopBoard
from queenmq.engine.pop.intention import Intention
from queenmq.engine.pop.machine import PopEvent, PopState
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.pop.poll_schedule import PollSchedule
from queenmq.engine.pop.ready_index import Pool
from queenmq.engine.ports import MessageStore
from queenmq.engine.requests import News, OnwardAsk, ResolveAsk

#: Pools polled at this interval or slower are asked the cheaper question first ...
_QUIET_MS = 500
#: ... but not for ever: a look-up also moves the horizon on.
_MISSES_MAX = 8
#: A search of the whole scope in spite of a horizon, in case anything was changed behind our back.
_FULL_EVERY_MS = 120_000


class Preflight:
    """Looks up pools and tells the board."""

    def __init__(
        self,
        store: MessageStore,
        catalogue: Catalogue,
        board: PopBoard,
        schedule: PollSchedule,
        metrics: PopMetrics,
        *,
        pools_max: int,
        page: int,
        budget_ms: int,
        is_checking: bool,
    ) -> None:
        self._store = store
        self._catalogue = catalogue
        self._board = board
        self._schedule = schedule
        self._metrics = metrics
        self._pools_max = pools_max
        self._page = page
        self._budget_ms = budget_ms
        self._is_checking = is_checking
        self._in_flight: set[Pool] = set()

    def take(self) -> list[Pool]:
        """The pools for the next look-up, those that asked first."""
        dry = self._board.dry
        pools = list(islice(dry, self._pools_max))
        for pool in pools:
            del dry[pool]
        self._in_flight = set(pools)
        return pools

    def covers(self, pool: Pool) -> bool:
        """Whether the look-up on its way began after the newest pop of this pool came."""
        return pool in self._in_flight and pool.newest_tick < self._board.tick

    async def run(self, pools: list[Pool]) -> None:
        """Look these pools up; an error leaves them as they were."""
        self._board.tick += 1
        tick = self._board.tick
        began = self._begin(pools)
        try:
            calm = {pool: None for pool in pools if self._is_calm(pool)}
            concerned = await self._with_news(list(calm))
            asked = [pool for pool in pools if pool not in calm or pool in concerned]
            await self._know_partitions(asked)
            quiet = {pool: None for pool in asked if pool not in calm and self._is_quiet(pool)}
            hits = await self._with_work(list(quiet))
            asked = [pool for pool in asked if pool not in quiet or pool in hits]
            rest = await self._go_on(asked, tick)
            if rest:
                await self._look_up(rest, tick)
        finally:
            self._in_flight = set()
            for intention in began:
                if intention.state is PopState.RESOLVING:
                    intention.move(PopEvent.LOOKED_UP, now_ms())

    def _begin(self, pools: list[Pool]) -> list[Intention]:
        began = [
            intention
            for pool in pools
            for intention in pool.unsettled()
            if intention.state is PopState.PENDING
        ]
        now = now_ms()
        for intention in began:
            intention.move(PopEvent.LOOK_UP, now)
        return began

    async def _know_partitions(self, pools: list[Pool]) -> None:
        """Named partitions are remembered, so that the next pop needs no look-up."""
        keys = {pool.scope.partition_key for pool in pools if pool.is_specific}
        unknown = {key for key in keys if self._catalogue.get(key) is None}
        if unknown:
            await self._catalogue.find(unknown)

    def _is_calm(self, pool: Pool) -> bool:
        is_old = now_ms() - pool.full_at_ms > _FULL_EVERY_MS
        return self._is_checking and not is_old and pool.is_calm()

    async def _with_news(self, pools: list[Pool]) -> set[Pool]:
        """Those that something new concerns; the others have seen all there is."""
        by_queue: dict[str, list[Pool]] = {}
        doubts = {}
        for pool in pools:
            by_queue.setdefault(pool.scope.queue or "", []).append(pool)
            doubts[pool] = pool.doubts
            # Whatever becomes known from now on counts beside the answer.
            pool.is_woken = False
        if not by_queue:
            return set()
        horizons = [
            min((one.horizon or "0" for one in group), key=int) for group in by_queue.values()
        ]
        answers = await self._store.find_news(list(by_queue), horizons)
        concerned: set[Pool] = set()
        for group, news in zip(by_queue.values(), answers, strict=True):
            for pool in group:
                if concerns(pool, news):
                    concerned.add(pool)
                else:
                    # A doubt that arose meanwhile may concern something that is not new.
                    if pool.doubts == doubts[pool]:
                        pool.horizon = news.horizon
                    self._rest(pool)
        self._metrics.checked(len(pools), len(concerned))
        return concerned

    def _rest(self, pool: Pool) -> None:
        """There is nothing for this pool: it waits for its next turn."""
        self._schedule.back_off(pool)
        self._board.dirty[pool] = None

    def _is_quiet(self, pool: Pool) -> bool:
        return (
            self._is_checking
            and pool.poll_ms >= _QUIET_MS
            and not pool.is_woken
            and pool.misses < _MISSES_MAX
            and pool.is_settled()
        )

    async def _with_work(self, pools: list[Pool]) -> set[Pool]:
        """Those that have something to deliver; the others wait for their next turn."""
        if not pools:
            return set()
        asks = [self._ask(pool) for pool in pools]
        answers = await self._store.has_pending_messages(asks)
        hits = {pool for pool, has_work in zip(pools, answers, strict=True) if has_work}
        self._metrics.checked(len(pools), len(hits))
        for pool in pools:
            if pool not in hits:
                pool.misses += 1
                self._rest(pool)
        return hits

    def _ask(self, pool: Pool) -> ResolveAsk:
        if pool.is_specific:
            return ResolveAsk(pool.scope, pool.consumer_group, None, ())
        is_old = now_ms() - pool.full_at_ms > _FULL_EVERY_MS
        if pool.horizon is None or is_old:
            return ResolveAsk(pool.scope, pool.consumer_group, None, ())
        return ResolveAsk(pool.scope, pool.consumer_group, pool.horizon, tuple(pool.held))

    async def _go_on(self, pools: list[Pool], tick: int) -> list[Pool]:
        """Bring the next page where a search was cut off; the pools that need a whole search."""
        asks = {
            pool: OnwardAsk(pool.scope.queue, pool.consumer_group, pool.after)
            for pool in pools
            if pool.after is not None and pool.scope.queue is not None
        }
        if not asks:
            return pools
        started = now_ms()
        pages = await self._store.search_onwards(
            list(asks.values()), limit=self._page, budget_ms=self._budget_ms
        )
        now = now_ms()
        done: dict[Pool, None] = {}
        unreached: dict[Pool, None] = {}
        for pool, page in zip(asks, pages, strict=True):
            if page is None:
                unreached[pool] = None
            elif page.is_filled:
                done[pool] = None
                pool.learn_page(page, tick=tick)
                self._learnt(pool, page.next_due_ms, now)
                self._metrics.looked_up(1, len(page.partition_ids), took_ms=now - started)
        self._board.dry = {**unreached, **self._board.dry}
        return [pool for pool in pools if pool not in done and pool not in unreached]

    async def _look_up(self, pools: list[Pool], tick: int) -> None:
        asks = [self._ask(pool) for pool in pools]
        told: list[tuple[tuple[UUID, ...], int]] = []
        for pool in pools:
            told.append((tuple(pool.held), pool.doubts))
            # Whatever becomes known from now on counts beside the answer.
            pool.due_at_ms = None
            pool.is_woken = False
        started = now_ms()
        results = await self._store.pop_sm_resolve(
            asks, limit=self._page, budget_ms=self._budget_ms
        )
        now = now_ms()
        reached = [result for result in results if result is not None]
        self._metrics.looked_up(
            len(reached),
            sum(len(result.partition_ids) for result in reached),
            took_ms=now - started,
        )
        unreached: dict[Pool, None] = {}
        for pool, ask, (held, doubts), result in zip(pools, asks, told, results, strict=True):
            if result is None:
                unreached[pool] = None
                continue
            is_cut = not result.is_complete and len(result.partition_ids) >= self._page
            pool.learn(result, held, tick=tick, doubts=doubts, is_cut=is_cut)
            if ask.horizon is None:
                pool.full_at_ms = started
            self._learnt(pool, result.next_due_ms, now)
        # Out of time; they come first in the next one.
        self._board.dry = {**unreached, **self._board.dry}

    def _learnt(self, pool: Pool, next_due_ms: float | None, now: float) -> None:
        pool.misses = 0
        if next_due_ms is not None:
            due_at_ms = now + next_due_ms
            pool.due_at_ms = min(due_at_ms, pool.due_at_ms or due_at_ms)
            self._board.due[pool] = None
        if not pool.ready:
            self._schedule.back_off(pool)
        self._board.dirty[pool] = None


def concerns(pool: Pool, news: News) -> bool:
    """Whether something new in its queue may have brought work to this pool."""
    if news.is_changed or not pool.is_specific:
        return news.is_changed or bool(news.partition_names)
    return pool.scope.partition in news.partition_names
