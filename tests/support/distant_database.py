"""A model of clients, a broker and a database some way off, in simulated time.

The broker's part is the real Batcher, InFlight and Gathering. Processors are shared as an operating
system shares them: all that is runnable goes on at the same speed.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from queenmq.engine.calls.batcher import Batcher
from queenmq.engine.calls.gathering import ENOUGH, Gathering
from queenmq.engine.calls.in_flight import NEAR_MS, EndedCall, InFlight

Step = Callable[[], None]


@dataclass(frozen=True)
class World:
    """Costs in milliseconds. With `is_shared` the broker runs on the database's processors."""

    clients: int
    round_trip_ms: float
    commit_ms: float = 0.5
    start_ms: float = 0.4
    request_ms: float = 0.2
    broker_ms: float = 0.1
    #: The broker's own work for a call.
    broker_call_ms: float = 0.02
    #: One program sends for all clients, as wrk does.
    client_ms: float = 0.02
    cores: int = 2
    is_shared: bool = True
    request_rows: int = 10
    rows_max: int = 2_000


class _Request:
    def __init__(self, number: int, rows: int) -> None:
        self.keys = (number,)
        self.weight = rows


@dataclass
class _Job:
    """Work on a processor, and what follows it."""

    left_ms: float
    then: Step


class Simulation:
    """Closed-loop clients: each sends its next request when the one before is answered.

    As in a broker, calls gather unless their number is fixed or the database is far away.
    """

    def __init__(
        self, world: World, in_flight: InFlight, *, seed: int, gathers: bool = True
    ) -> None:
        self._world = world
        self._random = random.Random(seed)
        self._in_flight = in_flight
        self._batcher: Batcher[_Request] = Batcher(
            calls_max=in_flight.limit, weight_max=world.rows_max
        )
        wait_ms = world.round_trip_ms + world.commit_ms
        self._is_near = gathers and in_flight.is_adaptive and wait_ms <= NEAR_MS
        self._gathering = Gathering(lambda: self._is_near, row_share=0.3)
        self._held_until = 0.0
        self._now = 0.0
        self._timers: list[tuple[float, int, Step]] = []
        self._numbers = count()
        self._jobs: list[_Job] = []
        self._broker: _Job | None = None
        #: What the broker handles in its next turn.
        self._inbox: list[tuple[float, Step]] = []
        self._clients_free_at = 0.0
        self._flying = 0
        self._answered = 0
        self.calls = 0

    def run(self, duration_ms: float) -> float:
        """Return the requests answered in a second, those of the first quarter left out."""
        for number in range(self._world.clients):
            self._send(_Request(number, self._world.request_rows))
        self._run_until(duration_ms / 4)
        self._answered = 0
        self._run_until(duration_ms)
        return self._answered / (duration_ms * 0.75) * 1000

    def _run_until(self, end_ms: float) -> None:
        while self._now < end_ms:
            self._step()

    # Clients.

    def _send(self, request: _Request) -> None:
        self._clients_free_at = max(self._now, self._clients_free_at)
        self._clients_free_at += self._world.client_ms * self._jitter()
        self._at(
            self._clients_free_at,
            lambda: self._tell_broker(self._world.broker_ms, lambda: self._batcher.add(request)),
        )

    # The broker: a turn handles all that has arrived during the turn before.

    def _tell_broker(self, work_ms: float, then: Step) -> None:
        self._inbox.append((work_ms, then))
        if self._broker is None:
            self._begin_turn()

    def _begin_turn(self) -> None:
        inbox, self._inbox = self._inbox, []
        work_ms = sum(one for one, _ in inbox) * self._jitter()
        self._broker = _Job(work_ms, lambda: self._end_turn([then for _, then in inbox]))
        self._jobs.append(self._broker)

    def _end_turn(self, steps: list[Step]) -> None:
        self._broker = None
        for step in steps:
            step()
        self._batcher.calls_max = self._in_flight.limit
        while not self._is_held() and (batch := self._batcher.take()):
            self._leave(batch, self._now)
        if self._inbox and self._broker is None:
            self._begin_turn()

    def _is_held(self) -> bool:
        batcher = self._batcher
        if not batcher.can_call:
            return False
        until_ms = self._gathering.hold_until(
            self._now,
            under_way=batcher.outstanding - len(batcher),
            requests=len(batcher),
            rows=batcher.weigh(requests_max=ENOUGH),
        )
        if until_ms is not None and until_ms != self._held_until:
            self._held_until = until_ms
            self._at(until_ms, lambda: self._tell_broker(0.0, lambda: None))
        return until_ms is not None

    def _leave(self, batch: list[_Request], left_at: float) -> None:
        world = self._world
        self.calls += 1
        self._flying += len(batch)
        work_ms = (world.start_ms + world.request_ms * len(batch)) * self._jitter()
        arrived_at = self._now + world.round_trip_ms
        committed = lambda: self._at(  # noqa: E731
            self._now + world.commit_ms * self._jitter(),
            lambda: self._tell_broker(world.broker_call_ms, lambda: self._end_call(batch, left_at)),
        )
        self._at(arrived_at, lambda: self._jobs.append(_Job(work_ms, committed)))

    def _end_call(self, batch: list[_Request], left_at: float) -> None:
        self._batcher.finish(batch)
        self._in_flight.note(
            EndedCall(self._now - left_at, len(batch), sum(one.weight for one in batch)),
            outstanding=len(self._batcher) + self._flying,
            wait_ms=self._world.round_trip_ms + self._world.commit_ms,
            room=self._in_flight.most,
        )
        self._flying -= len(batch)
        self._answered += len(batch)
        for request in batch:
            self._send(request)

    # Time.

    def _jitter(self) -> float:
        return self._random.uniform(0.7, 1.3)

    def _at(self, at_ms: float, then: Step) -> None:
        heapq.heappush(self._timers, (at_ms, next(self._numbers), then))

    def _step(self) -> None:
        """Go on to the next end of a job or of a wait."""
        speeds = [self._speed(job) for job in self._jobs]
        ends = (job.left_ms / speed for job, speed in zip(self._jobs, speeds, strict=True))
        next_end = min(ends, default=float("inf"))
        next_timer = self._timers[0][0] - self._now if self._timers else float("inf")
        passed = max(0.0, min(next_end, next_timer))
        self._now += passed
        for job, speed in zip(self._jobs, speeds, strict=True):
            job.left_ms -= passed * speed
        ended = [job for job in self._jobs if job.left_ms <= 1e-9]
        self._jobs = [job for job in self._jobs if job.left_ms > 1e-9]
        if next_timer <= next_end:
            heapq.heappop(self._timers)[2]()
        for job in ended:
            job.then()

    def _speed(self, job: _Job) -> float:
        if not self._world.is_shared and job is self._broker:
            return 1.0
        rivals = len(self._jobs) - (not self._world.is_shared and self._broker is not None)
        return min(1.0, self._world.cores / rivals)
