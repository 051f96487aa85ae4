"""The pop path of a broker: passes events to the board and carries out its actions.

The board decides and this module acts. It takes pops from the routes and news from everywhere else,
makes calls and look-ups, sets one timer, and answers. A parked pop costs neither a connection nor a
query of its own. Only the event loop touches the state, so there are no locks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.engine.ack.leases import LeaseService
from queenmq.engine.calls.pace import CallPace
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.news import News
from queenmq.engine.pop.board.actions import (
    Action,
    Announce,
    Answer,
    Fetch,
    Forget,
    HandBack,
    Lease,
    StartLookUp,
    WakeAt,
)
from queenmq.engine.pop.board.board import PopBoard
from queenmq.engine.pop.board.limits import BoardLimits
from queenmq.engine.pop.board.look_up import LookUp
from queenmq.engine.pop.board.poll_schedule import PollSchedule
from queenmq.engine.pop.calls import PopCalls, public_error
from queenmq.engine.pop.desk import PopDesk
from queenmq.engine.pop.intention import Intention, PopAnswer
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.pop.preflight import Preflight
from queenmq.engine.ports import MessageStore
from queenmq.engine.requests import PartitionKey, PartitionRef, PopGrant, PopRequest

LEFT = PopAnswer((), "caller_left")


@dataclass(frozen=True, slots=True)
class PopLimits:
    """The bounds of the pop path; the settings page explains each."""

    board: BoardLimits
    slots: int
    apart_count: int
    waiting_max: int
    min_interval_ms: int
    max_interval_ms: int
    listening_interval_ms: int


class PopService:
    """Serves pops. Publishes the queues whose leases were handed back."""

    def __init__(
        self,
        store: MessageStore,
        leases: LeaseService,
        catalogue: Catalogue,
        metrics: PopMetrics,
        limits: PopLimits,
        *,
        news: News,
        pace: CallPace | None = None,
    ) -> None:
        schedule = PollSchedule(
            min_interval_ms=limits.min_interval_ms,
            max_interval_ms=limits.max_interval_ms,
            listening_interval_ms=limits.listening_interval_ms,
        )
        self._board = PopBoard(limits.board, schedule, metrics, find_known=catalogue.get)
        self._desk = PopDesk(waiting_max=limits.waiting_max, metrics=metrics)
        self._calls = PopCalls(
            store,
            leases,
            self._board,
            metrics,
            slots=limits.slots,
            apart_count=limits.apart_count,
            pace=pace,
            carry_out=self._carry_out_and_turn,
        )
        self._preflight = Preflight(store, catalogue, page=limits.board.page)
        self._carriers: dict[type[Action], Callable[[Any], None]] = {
            Answer: lambda action: self._desk.let_out(action.intention, action.result),
            Lease: self._calls.lease,
            Fetch: self._calls.fetch,
            HandBack: self._calls.hand_back,
            StartLookUp: self._start_look_up,
            Forget: lambda action: catalogue.forget([action.key]),
            Announce: lambda action: news.returned(action.queue),
            WakeAt: self._set_timer,
        }
        self._is_turning = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0.0
        #: Ends the wait for a fuller call.
        self._hold: asyncio.TimerHandle | None = None

    @property
    def depth(self) -> int:
        """Return how many pops wait for a slot. Parked pops do not count."""
        return self._board.ready_count

    def count_waiting(self, key: PartitionKey | str, filters: tuple[str, str], group: str) -> int:
        """Count the waiting pops of a group that could get messages of a partition, or of any
        partition of a queue. `filters` are the queue's namespace and task.
        """
        return self._board.count_waiting(key, filters, group)

    def count_by_queue(self) -> dict[str, int]:
        """Return how many pops wait here, by queue. Pops by label are under the empty name."""
        return self._board.count_by_queue()

    # What the routes call.

    def submit(self, request: PopRequest) -> Intention:
        """Accept a pop. Its `answer` is a future of PopAnswer."""
        now = now_ms()
        intention = self._desk.admit(request, tick=self._board.tick, now=now)
        self._desk.set_deadline(intention, self._expire)
        self._carry_out(self._board.arrived(intention, now))
        self._turn_soon()
        return intention

    def leave(self, intention: Intention) -> None:
        """Note that the caller has left. Leases that a call still brings for it are handed back."""
        self._board.left(intention, now_ms())
        self._desk.let_out(intention, LEFT)

    def hand_back(self, request: PopRequest, grants: Sequence[PopGrant]) -> None:
        """Note that the caller left before it got these. Messages that were acked are lost."""
        self._carry_out(self._board.left_with(request, grants))

    def undo(self, request: PopRequest, grants: Sequence[PopGrant]) -> None:
        """Return messages that cannot be delivered now, so that a later pop gets them."""
        if request.is_auto_ack:
            self._calls.return_taken(request.consumer_group, grants)
        else:
            self.hand_back(request, grants)

    def _expire(self, intention: Intention) -> None:
        self._carry_out(self._board.expired(intention, now_ms()))

    async def drain(self) -> None:
        """Answer all waiters without messages and wait for the calls in flight."""
        self._carry_out(self._board.closed(now_ms()))
        for timer in (self._timer, self._hold):
            if timer is not None:
                timer.cancel()
        await self._calls.drain()

    def pause(self, is_paused: bool) -> None:
        """Pause or resume all pops. Waiting pops keep waiting until their deadlines."""
        self._carry_out(self._board.paused(is_paused, now_ms()))
        self._turn_soon()

    def pause_group(self, consumer_group: str, is_paused: bool) -> None:
        """Pause or resume the pops of one group; see `pause`."""
        self._carry_out(self._board.group_paused(consumer_group, is_paused, now_ms()))
        self._turn_soon()

    # News of messages.

    def pushed(self, refs: Iterable[PartitionRef]) -> None:
        """Note that these partitions have new messages."""
        self._board.pushed(refs)
        self._turn_soon()

    def freed(self, partition_id: UUID, key: PartitionKey, consumer_group: str) -> None:
        """Note that a lease has ended and the partition has more for its group."""
        self._board.freed(partition_id, key, consumer_group)
        self._turn_soon()

    def pushed_elsewhere(self, queues: Iterable[str]) -> None:
        """Note that these queues have news by another broker or a SQL session; `*` stands for
        all.
        """
        self._board.pushed_elsewhere(queues)
        self._turn_soon()

    def listening(self, is_listening: bool) -> None:
        """Note that notifications now arrive, or no longer do. Some may have been lost."""
        self._board.listening(is_listening)
        self._turn_soon()

    def dismiss(self, queue: str, consumer_group: str) -> None:
        """Forget the start of a group on a queue. Pops that named one have to name it again."""
        self._carry_out(self._board.dismissed(queue, consumer_group, now_ms()))

    # Turns and actions.

    def _turn_soon(self) -> None:
        # Not at once: requests that arrive in the same turn of the loop belong in the same call.
        if not self._is_turning and self._board.has_news:
            self._is_turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turning = False
        now = now_ms()
        held_until = self._calls.hold_until(now)
        # Look-ups and answers need no slot.
        free_slots = self._calls.free_slots if held_until is None else 0
        self._carry_out(self._board.turn(now, free_slots=free_slots))
        if held_until is not None and self._hold is None:
            delay_s = (held_until - now) / 1000
            self._hold = asyncio.get_running_loop().call_later(delay_s, self._end_hold)

    def _end_hold(self) -> None:
        self._hold = None
        self._turn()

    def _carry_out(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self._carriers[type(action)](action)

    def _carry_out_and_turn(self, actions: Iterable[Action]) -> None:
        self._carry_out(actions)
        self._turn()

    def _start_look_up(self, action: StartLookUp) -> None:
        self._calls.spawn(self._look_up(action.look_up))

    async def _look_up(self, look_up: LookUp) -> None:
        try:
            await self._preflight.run(look_up)
        except Exception as caught:
            error = public_error(caught)
            self._carry_out(self._board.look_up_failed(look_up, error, now_ms()))
        else:
            self._board.looked_up(look_up, now_ms())
        self._turn()

    def _set_timer(self, action: WakeAt) -> None:
        if self._timer is not None:
            if self._timer_at_ms <= action.at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = action.at_ms
        delay_s = max(0.0, action.at_ms - now_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._wake_up)

    def _wake_up(self) -> None:
        self._timer = None
        self._board.due(now_ms())
        self._turn()
