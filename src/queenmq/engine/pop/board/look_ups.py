"""Chooses the pools of the next look-up, and applies its result to the board. Pure: no I/O.

Look-ups keep a minimum interval, so that repeated pops cost a bounded number of queries. Even a pop
with `wait=false` waits for the next one, because only a look-up that began after the pop arrived
can show that there is nothing. A look-up for news does not wait for the interval, because there is
something to find.

A look-up that takes too long is cancelled. Its pops go on waiting, and its pools are looked up
again later, in smaller groups and with more time each: a place that is slow to search holds up few
others, and is still searched in the end. Such pools are looked up in a lane of their own, beside
the look-ups of all others. No pool is in two look-ups at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from queenmq.engine.pop.board.actions import Action
from queenmq.engine.pop.board.limits import BoardLimits
from queenmq.engine.pop.board.look_up import PATIENCE, LookUp
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.board.state import BoardState
from queenmq.engine.pop.board.wanted import Wanted
from queenmq.engine.pop.machine import PopEvent
from queenmq.errors import CallTimedOut, QueenError, StorageFault, StorageRejected

#: Each time a look-up took too long, this many times fewer pools share the next one.
_SMALLER = 16
#: A pop that may not wait does not wait longer than this for a look-up to begin.
_IMPATIENT_MS = 100
#: How often a look-up is given more time. That of all calls bounds it, too.
_SLOWNESS_MAX = 4
#: A pop that may not wait gets an error when look-ups took too long for this time.
_GIVE_UP_MS = 30_000


class _Lane:
    """One look-up at a time, and the pools that wait for the next."""

    def __init__(self, wanted: Wanted, interval_ms: float) -> None:
        self.wanted = wanted
        self._interval_ms = interval_ms
        self.current: LookUp | None = None
        #: When the next look-up without news may begin, and that for a pop that may not wait.
        self._next_at_ms = 0.0
        self._soon_at_ms = 0.0

    def next_at_ms(self) -> float | None:
        """Return when the next look-up may begin, if one waits for nothing but that."""
        if not self.wanted or self.current is not None:
            return None
        return self._soon_at_ms if self.wanted.is_impatient else self._next_at_ms

    def may_begin(self, now_ms: float) -> bool:
        wanted = self.wanted
        if not wanted or self.current is not None:
            return False
        if now_ms >= self._next_at_ms:
            return True
        if not self._cannot_wait(now_ms):
            return False
        wanted.refresh()
        return self._cannot_wait(now_ms)

    def _cannot_wait(self, now_ms: float) -> bool:
        wanted = self.wanted
        return wanted.is_urgent or (wanted.is_impatient and now_ms >= self._soon_at_ms)

    def take(self, most: int, now_ms: float) -> list[Pool]:
        """Take the pools of the next look-up."""
        is_early = now_ms < self._next_at_ms
        pools = self.wanted.take(most, is_early=is_early)
        self._soon_at_ms = now_ms + min(self._interval_ms, _IMPATIENT_MS)
        if not (is_early and self.wanted):
            # Urgent ones do not put off others that found no room beside them.
            self._next_at_ms = now_ms + self._interval_ms
        return pools


class LookUps:
    """Begins look-ups, one at a time in each lane, and takes their ends in."""

    def __init__(self, state: BoardState, limits: BoardLimits) -> None:
        self._state = state
        self._limits = limits
        interval_ms = limits.look_up_interval_ms
        self._lanes = (_Lane(state.dry, interval_ms), _Lane(state.dry_slow, interval_ms))

    def begin(self, now_ms: float) -> list[LookUp]:
        """Begin the look-ups that are needed and may begin now."""
        if self._state.dry_alone:
            return self._begin_alone(now_ms)
        begun = []
        for lane in self._lanes:
            if lane.may_begin(now_ms):
                lane.current = self._begin(self._take(lane, now_ms), now_ms)
                begun.append(lane.current)
        return begun

    def _begin_alone(self, now_ms: float) -> list[LookUp]:
        """Look one pool up by itself. It may want a look-up in either lane, so it needs both."""
        if any(lane.current is not None for lane in self._lanes):
            return []
        look_up = self._begin([self._state.dry_alone.pop(0)], now_ms)
        for lane in self._lanes:
            lane.current = look_up
        return [look_up]

    def _begin(self, pools: list[Pool], now_ms: float) -> LookUp:
        self._state.tick += 1
        for pool in pools:
            pool.is_urgent = False
        return LookUp(
            pools,
            self,
            self._state.metrics,
            tick=self._state.tick,
            page=self._limits.page,
            is_checking=self._limits.is_checking,
            limit_ms=self._limits.look_up_limit_ms * PATIENCE ** pools[0].slowness,
            is_apart=pools[0].slowness > 0,
            now_ms=now_ms,
        )

    def _take(self, lane: _Lane, now_ms: float) -> list[Pool]:
        slowness = max(pool.slowness for pool in lane.wanted)
        return lane.take(max(1, self._limits.look_up_pools_max // _SMALLER**slowness), now_ms)

    def _find(self, pool: Pool) -> LookUp | None:
        """Return the look-up that is to find out about the pool."""
        for lane in self._lanes:
            if lane.current is not None and pool in lane.current.unanswered:
                return lane.current
        return None

    def next_at_ms(self) -> float | None:
        """Return when the next look-up may begin, if one waits for nothing but that."""
        times = [lane.next_at_ms() for lane in self._lanes]
        return min((one for one in times if one is not None), default=None)

    def cover(self, pool: Pool) -> bool:
        """Return whether a look-up on its way began after the newest pop of this pool came."""
        current = self._find(pool)
        return current is not None and pool.newest_tick < current.tick

    def end(self, look_up: LookUp, now_ms: float) -> None:
        """Note that all questions are answered."""
        look_up.end(now_ms)
        for lane in self._lanes:
            if lane.current is look_up:
                lane.current = None

    def fail(self, look_up: LookUp, error: QueenError, now_ms: float) -> list[Action]:
        """Handle a failed question."""
        self.end(look_up, now_ms)
        if isinstance(error, CallTimedOut):
            return self._delay(look_up, error, now_ms)
        self._state.doubt()
        if isinstance(error, StorageRejected) and len(look_up.pools) > 1:
            # One place is at fault. Only the pops that wait there may fail.
            self._state.dry_alone += look_up.pools
            return []
        actions: list[Action] = []
        for pool in look_up.pools:
            actions += self._fail_waiting(pool, error, now_ms)
        return actions

    def _delay(self, look_up: LookUp, error: CallTimedOut, now_ms: float) -> list[Action]:
        """Look the pools up again later, with more time."""
        took_ms = now_ms - look_up.began_at_ms
        # The first time it only goes on apart from others, with more time.
        self._state.metrics.note_cancelled(took_ms=took_ms, is_timeout=look_up.is_apart)
        for pool in look_up.unanswered:
            pool.slowness = min(pool.slowness + 1, _SLOWNESS_MAX)
            # What it was to find out is still unknown.
            pool.is_woken = pool.is_urgent = True
            self._state.dry.pop(pool, None)
            self._state.dry_slow.pop(pool, None)
            self._state.schedule.delay(pool, now_ms)
        actions: list[Action] = []
        for pool in self._state.pools:
            if pool.impatient:
                actions += self._give_up(pool, error, now_ms)
        return actions

    def _give_up(self, pool: Pool, error: CallTimedOut, now_ms: float) -> Iterator[Action]:
        for intention in list(pool.waiting()):
            if intention.request.wait_ms is None and now_ms - intention.came_at_ms > _GIVE_UP_MS:
                pool.remove(intention)
                yield from self._state.finish(intention, PopEvent.ERROR, error, now_ms)

    def _fail_waiting(self, pool: Pool, error: QueenError, now_ms: float) -> Iterator[Action]:
        # Long polls wait, because an outage may pass in time. A fault is reported at once.
        is_fault = isinstance(error, StorageFault)
        for intention in [one for one in pool.waiting() if is_fault or not one.may_wait]:
            pool.remove(intention)
            yield from self._state.finish(intention, PopEvent.ERROR, error, now_ms)
        if pool.waiting_count and not self._state.is_closing:
            self._state.schedule.back_off(pool)
            self._state.schedule.add(pool, now_ms)

    # What a look-up reports.

    def rest(self, pool: Pool) -> None:
        """Note that a look-up found nothing for the pool. It waits for its next poll."""
        self._state.schedule.back_off(pool)
        self.note_news(pool)

    def note_news(self, pool: Pool) -> None:
        """Note that the pool may have more to try."""
        state = self._state
        state.dirty[pool] = None
        if not pool.slowness and pool in state.dry_slow:
            # It is quick again, and in one lane only.
            del state.dry_slow[pool]
            state.dry.want(pool)

    def note_learnt(self, pool: Pool, due_at_ms: float | None) -> None:
        """Note that a look-up has updated the pool."""
        if due_at_ms is not None:
            self._state.note_due(pool, due_at_ms)
        if not pool.ready:
            self._state.schedule.back_off(pool)
        # Where something was found there may be more.
        pool.is_urgent |= bool(pool.ready) and pool.walk is None
        if pool.walk is not None and (pool.waiting_count or pool.claims):
            # It is urgent once there is nothing left to try.
            self._state.want_look_up(pool)
        self.note_news(pool)

    def put_first(self, pools: Collection[Pool]) -> None:
        """Put these pools first, because a look-up ran out of time before them."""
        for pool in pools:
            pool.is_urgent = True
        self._state.dry.put_first(pool for pool in pools if not pool.slowness)
        self._state.dry_slow.put_first(pool for pool in pools if pool.slowness)
