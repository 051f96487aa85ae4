"""A walk: the search of a large queue slice by slice, in id order. Pure: no clock, no I/O.

A walk that has come to the end has seen each partition once, all after it began. Together with what
was pushed since it began, that is everything there is. So a walk gives the pool a horizon, unless
something was lost on the way. It is never begun anew halfway, so that the last partitions have
their turn however much happens meanwhile: one that has lost something goes on, and another follows.

While a pool without a horizon walks, its look-ups also follow what is new, from the horizon of the
look-up that began the walk. A pool with a horizon walks now and then as well: that is a *check*, in
case rows were changed behind our back. What the pool knows counts meanwhile.
"""

from __future__ import annotations

from uuid import UUID

from queenmq.engine.requests import Slice

#: Before the first partition of a queue.
_START = UUID(int=0)


class Walk:
    """One search of a queue, on its way."""

    __slots__ = ("after", "began_at_ms", "horizon", "is_check", "is_lossy", "tick", "took_ms")

    def __init__(self, *, horizon: str | None, tick: int, now_ms: float) -> None:
        #: The partition after which the next slice begins.
        self.after = _START
        #: From where on it is unknown what is new; None for a check.
        self.horizon = horizon
        self.is_check = horizon is None
        #: Something was lost since the walk began, so it gives no horizon.
        self.is_lossy = False
        #: The look-up that began the walk.
        self.tick = tick
        self.began_at_ms = now_ms
        #: The time of its slices.
        self.took_ms = 0.0

    def advance(self, part: Slice, *, took_ms: float) -> bool:
        """Go on after a slice. Return whether it was the last one."""
        self.after = part.last_id
        self.took_ms += took_ms
        return part.is_end
