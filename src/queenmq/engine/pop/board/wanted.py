"""Pools that want a look-up, in the order in which they asked. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from queenmq.engine.pop.board.pool import Pool


class Wanted(dict[Pool, None]):
    """The pools, and whether one of them cannot wait."""

    #: One of them is urgent.
    is_urgent = False
    #: A pop that may not wait is in one of them.
    is_impatient = False

    def want(self, pool: Pool) -> None:
        """Add a pool, or note that it wants more than when it was added."""
        self[pool] = None
        self.is_urgent |= pool.is_look_up_urgent()
        self.is_impatient |= pool.impatient > 0

    def put_first(self, pools: Iterable[Pool]) -> None:
        """Put these pools before all others."""
        order = [*pools, *self]
        self.clear()
        for pool in order:
            self.want(pool)

    def take(self, most: int, *, is_early: bool) -> list[Pool]:
        """Take the pools that asked first; of those that ask early, the ones that cannot wait."""
        wanted = sorted(self, key=lambda pool: is_early and not pool.cannot_wait())
        slowness = wanted[0].slowness
        pools = list(islice((pool for pool in wanted if pool.slowness == slowness), most))
        for pool in pools:
            del self[pool]
        self.refresh()
        return pools

    def refresh(self) -> None:
        """Find out again whether one of them cannot wait, as some have gone or were looked up."""
        self.is_urgent = any(pool.is_look_up_urgent() for pool in self)
        self.is_impatient = any(pool.impatient for pool in self)
