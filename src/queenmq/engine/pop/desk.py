"""Takes pops in and answers them: the one way in and the one way out of the pop path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from queenmq.clock import now_ms
from queenmq.engine.pop.intention import Intention, PopAnswer
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.requests import PopRequest
from queenmq.errors import Overloaded, QueenError


class PopDesk:
    """Counts pops, keeps their deadlines, and gives them their answers."""

    def __init__(
        self,
        *,
        waiting_max: int,
        metrics: PopMetrics,
    ) -> None:
        self._waiting_max = waiting_max
        self._metrics = metrics
        self._inside = 0

    def admit(self, request: PopRequest, *, tick: int, now: float) -> Intention:
        """Admit a pop. Its `answer` is a future of PopAnswer."""
        if self._inside >= self._waiting_max:
            raise Overloaded(
                f"{self._inside} pops are already waiting; try again later",
                depth=self._inside,
                bound="pop_waiting_max",
            )
        self._count(1, now)
        return Intention(
            request,
            tick=tick,
            answer=asyncio.get_running_loop().create_future(),
            now_ms=now,
            times=self._metrics.times,
        )

    def set_deadline(self, intention: Intention, expire: Callable[[Intention], None]) -> None:
        """Call back when the pop's time is up."""
        if intention.request.wait_ms is not None:
            intention.timer = asyncio.get_running_loop().call_later(
                intention.request.wait_ms / 1000, expire, intention
            )

    def let_out(self, intention: Intention, result: PopAnswer | QueenError) -> None:
        """Deliver the answer to the caller."""
        if intention.answer.done():
            return
        self._count(-1, now_ms())
        if intention.timer is not None:
            intention.timer.cancel()
        if isinstance(result, QueenError):
            intention.answer.set_exception(result)
        else:
            if result.grants:
                self._metrics.note_lease(len(result.grants))
            intention.answer.set_result(result)

    def _count(self, change: int, now: float) -> None:
        self._inside += change
        self._metrics.note_waiting(self._inside, now)
