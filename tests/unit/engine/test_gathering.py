"""Small calls gather more requests while another call is under way, but not for long."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from queenmq.engine.calls.batcher import Batcher
from queenmq.engine.calls.dispatcher import Dispatcher
from queenmq.engine.calls.gathering import ENOUGH, GATHER_MS, Gathering
from queenmq.engine.calls.in_flight import InFlight
from queenmq.engine.calls.pace import CallPace, CallRoom, RoundTrips
from queenmq.errors import QueenError
from tests.support.waiting import wait_until_async


async def make(
    *, wait_ms: float = 0.5, least: int = 2, most: int = 8, row_share: float = 0.0
) -> Gathering:
    async def measure() -> float:
        return wait_ms

    trips = RoundTrips(measure)
    trips.want()
    await wait_until_async(lambda: trips.shortest_ms, timeout_s=5, what="a measurement")
    pace = CallPace(InFlight(least, most, rows_max=2_000), trips, CallRoom(12))
    return Gathering(pace, row_share=row_share)


async def test_a_request_leaves_at_once_when_no_call_is_under_way() -> None:
    gathering = await make()
    assert gathering.hold_until(0, calls=0, requests=1, rows=1) is None


async def test_few_requests_wait_for_the_call_under_way_to_end() -> None:
    gathering = await make()
    assert gathering.hold_until(100, calls=1, requests=1, rows=1) == 100 + GATHER_MS
    # More requests do not prolong the wait of the first.
    assert gathering.hold_until(101, calls=1, requests=2, rows=2) == 100 + GATHER_MS
    assert gathering.hold_until(101.5, calls=0, requests=2, rows=2) is None
    # The next ones have the whole time again.
    assert gathering.hold_until(110, calls=1, requests=1, rows=1) == 110 + GATHER_MS


async def test_a_call_that_does_not_end_holds_up_others_only_briefly() -> None:
    gathering = await make()
    until = gathering.hold_until(100, calls=1, requests=1, rows=1)
    assert until is not None
    assert gathering.hold_until(until, calls=1, requests=1, rows=1) is None


async def test_a_call_that_is_worth_its_cost_leaves_at_once() -> None:
    gathering = await make(row_share=0.3)
    assert gathering.hold_until(0, calls=1, requests=ENOUGH, rows=0) is None
    assert gathering.hold_until(0, calls=1, requests=1, rows=100) is None
    assert gathering.hold_until(0, calls=1, requests=2, rows=20) is not None


async def test_far_from_the_database_no_request_waits_for_others() -> None:
    gathering = await make(wait_ms=5.0)
    assert gathering.hold_until(0, calls=1, requests=1, rows=1) is None


async def test_a_number_of_calls_that_an_operator_set_is_used() -> None:
    gathering = await make(least=4, most=4)
    assert gathering.hold_until(0, calls=1, requests=1, rows=1) is None


@dataclass
class Request:
    """A request for a partition of its own."""

    number: int
    weight: int = 1

    @property
    def keys(self) -> set[int]:
        return {self.number}


class Calls:
    """Calls that end when they are allowed to."""

    def __init__(self) -> None:
        self.left: list[list[int]] = []
        self.first_may_end = asyncio.Event()

    async def run(self, batch: list[Request]) -> None:
        self.left.append([one.number for one in batch])
        if len(self.left) == 1:
            await self.first_may_end.wait()

    def fail(self, batch: list[Request], error: QueenError) -> None:
        raise AssertionError(error)


async def start(calls: Calls) -> Dispatcher[Request]:
    """Return a dispatcher whose first call, with request 0, is under way."""
    batcher: Batcher[Request] = Batcher(calls_max=2, weight_max=1_000)
    gathering = await make()
    one: Dispatcher[Request] = Dispatcher(
        "test", batcher, calls.run, calls.fail, gathering=gathering
    )
    one.add(Request(0))
    await wait_until_async(lambda: calls.left, timeout_s=5, what="the first call")
    return one


async def test_requests_that_gathered_leave_in_one_call_when_the_first_call_ends() -> None:
    calls = Calls()
    dispatcher = await start(calls)
    dispatcher.add(Request(1))
    await asyncio.sleep(0)
    dispatcher.add(Request(2))
    calls.first_may_end.set()
    await dispatcher.drain()
    assert calls.left == [[0], [1, 2]]


async def test_requests_that_gathered_leave_also_while_the_first_call_is_stuck() -> None:
    calls = Calls()
    dispatcher = await start(calls)
    dispatcher.add(Request(1))
    await wait_until_async(lambda: len(calls.left) == 2, timeout_s=5, what="the second call")
    calls.first_may_end.set()
    await dispatcher.drain()
    assert calls.left == [[0], [1]]
