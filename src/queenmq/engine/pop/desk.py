"""Takes pops in and answers them: the one way in and the one way out of the pop path."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from queenmq.clock import now_ms
from queenmq.engine.pop.intention import Intention, PopAnswer, StateTimes
from queenmq.engine.pop.machine import PopEvent, PopState
from queenmq.engine.requests import PopRequest
from queenmq.errors import Overloaded, QueenError, StorageUnavailable

logger = logging.getLogger(__name__)

LEFT = PopAnswer((), "caller_left")
DISMISSED = PopAnswer((), "group_deleted", is_timeout=True)
STOPPING = PopAnswer((), "shutting_down", is_timeout=True)


class PopDesk:
    """Counts who is inside, keeps each pop's deadline, and sets each answer once."""

    def __init__(
        self,
        *,
        waiting_max: int,
        times: StateTimes,
        on_count: Callable[[int, float], None],
    ) -> None:
        self._waiting_max = waiting_max
        self._times = times
        self._on_count = on_count
        self._inside = 0
        self.is_closing = False

    def admit(self, request: PopRequest, *, tick: int) -> Intention:
        """A new pop; its `answer` is a future of PopAnswer."""
        if self._inside >= self._waiting_max:
            raise Overloaded(
                f"{self._inside} pops already wait; try again later",
                depth=self._inside,
                bound="pop_waiting_max",
            )
        now = now_ms()
        self._inside += 1
        self._on_count(self._inside, now)
        return Intention(
            request,
            tick=tick,
            answer=asyncio.get_running_loop().create_future(),
            now_ms=now,
            times=self._times,
        )

    def set_deadline(self, intention: Intention, expire: Callable[[Intention], None]) -> None:
        """Call back when the pop has waited as long as it may."""
        if intention.request.wait_ms is not None:
            intention.timer = asyncio.get_running_loop().call_later(
                intention.request.wait_ms / 1000, expire, intention
            )

    def abandon(self, intention: Intention) -> None:
        """Its caller has left while a call is on its way for it; nobody waits any more."""
        now = now_ms()
        intention.move(PopEvent.CALLER_LEFT, now)
        self._count_out(now)

    def _count_out(self, now: float) -> None:
        self._inside -= 1
        self._on_count(self._inside, now)

    def finish(self, intention: Intention, event: PopEvent, result: PopAnswer | QueenError) -> None:
        """The pop takes its last step and its caller gets the answer."""
        now = now_ms()
        if intention.state is not PopState.ABANDONED:
            self._count_out(now)
        intention.move(event, now)
        if intention.timer is not None:
            intention.timer.cancel()
        if intention.answer.done():
            return
        if isinstance(result, QueenError):
            intention.answer.set_exception(result)
        else:
            intention.answer.set_result(result)


def known(error: Exception) -> QueenError:
    """The error as callers may see it. One we did not foresee is a defect, and said loudly."""
    if isinstance(error, QueenError):
        return error
    logger.error("a pop call broke", exc_info=error, extra={"event": "call_broke"})
    return StorageUnavailable("internal error; the server log has the details")
