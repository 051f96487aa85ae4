"""Which pools are looked up next, and what a look-up changes on the board. Pure: no I/O.

Look-ups keep a distance, so that pops which come again and again cost a bounded number of queries.
A pop that may not wait waits for the next one: only a look-up that began after it came tells it
that there is nothing. News does not wait for the distance, because what it announces is there.

A look-up that takes too long is cancelled. Its pops go on waiting, and its pools are looked up
again later, in smaller groups and with more time each: a place that is slow to search holds up few
others, and is found out about all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from queenmq.engine.pop.board.actions import Action
from queenmq.engine.pop.board.limits import BoardLimits
from queenmq.engine.pop.board.look_up import PATIENCE, LookUp
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.board.state import BoardState
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


class LookUps:
    """Starts one look-up at a time and handles its end."""

    def __init__(self, state: BoardState, limits: BoardLimits) -> None:
        self._state = state
        self._limits = limits
        self._current: LookUp | None = None
        #: When the next look-up without news may begin, and that for a pop that may not wait.
        self._next_at_ms = 0.0
        self._soon_at_ms = 0.0

    def begin(self, now_ms: float) -> LookUp | None:
        """Begin the next look-up, if one is needed and none is on its way."""
        if self._current is not None or not (pools := self._take(now_ms)):
            return None
        self._state.tick += 1
        for pool in pools:
            pool.is_urgent = False
        self._current = LookUp(
            pools,
            self,
            self._state.metrics,
            tick=self._state.tick,
            page=self._limits.page,
            is_checking=self._limits.is_checking,
            limit_ms=self._limits.look_up_limit_ms * PATIENCE ** pools[0].slowness,
            now_ms=now_ms,
        )
        return self._current

    def next_at_ms(self) -> float | None:
        """Return when the next look-up may begin, if one waits for nothing but that."""
        if not self._state.dry or self._current is not None:
            return None
        return self._soon_at_ms if self._state.is_dry_impatient else self._next_at_ms

    def _take(self, now_ms: float) -> list[Pool]:
        """Take the pools that asked first; before their time, those that cannot wait come first."""
        state = self._state
        if state.dry_alone:
            return [state.dry_alone.pop(0)]
        if not state.dry or not self._may_begin(now_ms):
            return []
        is_early = now_ms < self._next_at_ms
        wanted = sorted(state.dry, key=lambda pool: is_early and not pool.cannot_wait())
        slowness = wanted[0].slowness
        room = max(1, self._limits.look_up_pools_max // _SMALLER**slowness)
        pools = list(islice((pool for pool in wanted if pool.slowness == slowness), room))
        for pool in pools:
            del state.dry[pool]
        state.is_dry_urgent = any(pool.is_look_up_urgent() for pool in state.dry)
        state.is_dry_impatient = any(pool.impatient for pool in state.dry)
        interval_ms = self._limits.look_up_interval_ms
        self._soon_at_ms = now_ms + min(interval_ms, _IMPATIENT_MS)
        if not (is_early and state.dry):
            # Urgent ones do not put off others that found no room beside them.
            self._next_at_ms = now_ms + interval_ms
        return pools

    def _may_begin(self, now_ms: float) -> bool:
        state = self._state
        return (
            now_ms >= self._next_at_ms
            or state.is_dry_urgent
            or (state.is_dry_impatient and now_ms >= self._soon_at_ms)
        )

    def cover(self, pool: Pool) -> bool:
        """Return whether the running look-up began after the newest pop of this pool arrived."""
        current = self._current
        return (
            current is not None and pool in current.members and pool.newest_tick < self._state.tick
        )

    def end(self, look_up: LookUp, now_ms: float) -> None:
        """Note that all questions are answered."""
        look_up.end(now_ms)
        self._current = None

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
        self._state.metrics.note_cancelled(took_ms=now_ms - look_up.began_at_ms)
        for pool in look_up.unanswered:
            pool.slowness = min(pool.slowness + 1, _SLOWNESS_MAX)
            # What it was to find out is still unknown.
            pool.is_woken = pool.is_urgent = True
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
        self._state.dirty[pool] = None

    def note_learnt(self, pool: Pool, due_at_ms: float | None) -> None:
        """Note that a look-up has updated the pool."""
        if due_at_ms is not None:
            self._state.note_due(pool, due_at_ms)
        if not pool.ready:
            self._state.schedule.back_off(pool)
        # Where something was found there may be more.
        pool.is_urgent |= bool(pool.ready) or pool.after is not None
        self._state.dirty[pool] = None

    def put_first(self, pools: Iterable[Pool]) -> None:
        """Put these pools first, because a look-up ran out of time before them."""
        first = dict.fromkeys(pools)
        for pool in first:
            pool.is_urgent = self._state.is_dry_urgent = True
        self._state.dry = {**first, **self._state.dry}
