"""Decides which pools are looked up next, and applies the results. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from queenmq.engine.pop.board.actions import Action
from queenmq.engine.pop.board.look_up import LookUp
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.board.state import BoardState
from queenmq.engine.pop.machine import PopEvent
from queenmq.errors import QueenError, StorageFault, StorageRejected


class LookUps:
    """Starts one look-up at a time and handles its end."""

    def __init__(self, state: BoardState, *, pools_max: int, page: int, is_checking: bool) -> None:
        self._state = state
        self._pools_max = pools_max
        self._page = page
        self._is_checking = is_checking
        self._current: LookUp | None = None

    def begin(self, now_ms: float) -> LookUp | None:
        """Start the next look-up, if one is needed and none is running."""
        if self._current is not None or not (pools := self._take()):
            return None
        self._state.tick += 1
        self._current = LookUp(
            pools,
            self,
            self._state.metrics,
            tick=self._state.tick,
            page=self._page,
            is_checking=self._is_checking,
            now_ms=now_ms,
        )
        return self._current

    def _take(self) -> list[Pool]:
        """Take the pools that asked first."""
        state = self._state
        if state.dry_alone:
            return [state.dry_alone.pop(0)]
        pools = list(islice(state.dry, self._pools_max))
        for pool in pools:
            del state.dry[pool]
        return pools

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
        self._state.doubt()
        if isinstance(error, StorageRejected) and len(look_up.pools) > 1:
            # One place is at fault. Only the pops that wait there may fail.
            self._state.dry_alone += look_up.pools
            return []
        actions: list[Action] = []
        for pool in look_up.pools:
            actions += self._fail_waiting(pool, error, now_ms)
        return actions

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
        self._state.dirty[pool] = None

    def put_first(self, pools: Iterable[Pool]) -> None:
        """Put these pools first, because a look-up ran out of time before them."""
        self._state.dry = {**dict.fromkeys(pools), **self._state.dry}
