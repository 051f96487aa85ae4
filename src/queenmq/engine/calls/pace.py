"""Paces the calls of a broker: measures how far away the database is and shares the connections.

Nothing is measured while the current number of calls suffices, so an idle broker sends no queries.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from queenmq.clock import now_ms
from queenmq.engine.calls.in_flight import NEAR_MS, EndedCall, InFlight
from queenmq.errors import QueenError

logger = logging.getLogger(__name__)

#: Time between two measurements.
_INTERVAL_MS = 1_000
#: Measurements to keep. The shortest one counts, because the others also waited for a CPU.
_KEPT = 5


class RoundTrips:
    """Measures how long a call travels and waits for its commit, on request.

    `measure` makes the smallest call that commits something and returns its milliseconds.
    """

    def __init__(self, measure: Callable[[], Awaitable[float]]) -> None:
        self._measure = measure
        self._kept: deque[float] = deque(maxlen=_KEPT)
        self._measured_at_ms: float | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def shortest_ms(self) -> float:
        """Return the shortest of the last measurements, or 0 before the first."""
        return min(self._kept, default=0.0)

    @property
    def is_measuring(self) -> bool:
        """Return whether a measurement is running."""
        return self._task is not None and not self._task.done()

    def want(self) -> None:
        """Measure now, unless the last measurement is recent or still under way."""
        if self.is_measuring:
            return
        now = now_ms()
        if self._measured_at_ms is None or now - self._measured_at_ms >= _INTERVAL_MS:
            self._measured_at_ms = now
            self._task = asyncio.create_task(self._run(), name="round-trip")

    async def _run(self) -> None:
        try:
            self._kept.append(await self._measure())
        except QueenError as error:
            # Calls fail for the same reason, and report it.
            logger.debug("no round trip measured: %s", error)

    async def stop(self) -> None:
        """Cancel a running measurement."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


class CallRoom:
    """The calls that all paths of a broker may have in flight together."""

    def __init__(self, calls_max: int) -> None:
        self._calls_max = calls_max
        self._paths: list[InFlight] = []

    def add(self, path: InFlight) -> None:
        """Count the calls of a path."""
        self._paths.append(path)

    def left_for(self, path: InFlight) -> int:
        """Return how many calls the other paths leave to this one."""
        return self._calls_max - sum(one.limit for one in self._paths if one is not path)


class CallPace:
    """Decides how many calls one path may have in flight, call by call."""

    def __init__(self, in_flight: InFlight, round_trips: RoundTrips, room: CallRoom) -> None:
        self._in_flight = in_flight
        self._round_trips = round_trips
        self._room = room
        room.add(in_flight)

    @property
    def limit(self) -> int:
        """Return how many calls may be in flight now."""
        return self._in_flight.limit

    @property
    def most(self) -> int:
        """Return the upper bound of that number."""
        return self._in_flight.most

    def is_near(self) -> bool:
        """Return whether the database is so near that small calls should gather.

        False for a number that an operator has set: its calls leave at once.
        """
        return self._in_flight.is_adaptive and self._round_trips.shortest_ms <= NEAR_MS

    def note(self, call: EndedCall, *, outstanding: int) -> None:
        """Learn from a call that has ended. `outstanding` counts all requests, its own included."""
        if not self._in_flight.is_adaptive:
            return
        if outstanding > call.requests:
            self._round_trips.want()
        self._in_flight.note(
            call,
            outstanding=outstanding,
            wait_ms=self._round_trips.shortest_ms,
            room=self._room.left_for(self._in_flight),
        )
