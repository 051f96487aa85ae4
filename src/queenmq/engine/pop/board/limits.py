"""The sizes and times of calls and look-ups."""

from __future__ import annotations

from dataclasses import dataclass

from queenmq.engine.pop.board.decision import Room


@dataclass(frozen=True, slots=True)
class BoardLimits:
    """The bounds of the board."""

    room: Room
    #: Pools in one look-up, and partitions to try that it brings for each.
    look_up_pools_max: int
    page: int
    #: Whether quiet pools are asked the cheaper questions first.
    is_checking: bool
    #: How long a question of a look-up may take.
    look_up_limit_ms: int
    #: Least time from the start of one look-up to that of the next, unless there is news.
    look_up_interval_ms: float
