"""Small calls gather more requests while another call is under way, but not for long."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from queenmq.engine.calls.batcher import Batcher
from queenmq.engine.calls.dispatcher import Dispatcher
from queenmq.engine.calls.gathering import ENOUGH, GATHER_MS, Gathering
from queenmq.engine.calls.in_flight import InFlight
from queenmq.engine.calls.pace import CallPace, CallRoom, RoundTrips
from queenmq.errors import QueenError
from tests.support.distant_database import Simulation, World
from tests.support.waiting import wait_until_async


def make(*, is_near: bool = True, row_share: float = 0.0, alternates: bool = False) -> Gathering:
    return Gathering(lambda: is_near, row_share=row_share, alternates=alternates)


def test_a_request_leaves_at_once_when_no_call_is_under_way() -> None:
    for alternates in (False, True):
        gathering = make(alternates=alternates)
        assert gathering.hold_until(0, under_way=0, requests=1, rows=1) is None


def test_few_requests_wait_for_the_call_under_way_to_end() -> None:
    gathering = make()
    assert gathering.hold_until(100, under_way=5, requests=1, rows=1) == 100 + GATHER_MS
    # More requests do not prolong the wait of the first.
    assert gathering.hold_until(101, under_way=5, requests=2, rows=2) == 100 + GATHER_MS
    assert gathering.hold_until(101.5, under_way=0, requests=2, rows=2) is None
    # The next ones have the whole time again.
    assert gathering.hold_until(110, under_way=5, requests=1, rows=1) == 110 + GATHER_MS


def test_requests_leave_when_they_are_as_many_as_are_under_way() -> None:
    assert make().hold_until(0, under_way=5, requests=5, rows=5) is None
    # Calls of the other kind run meanwhile.
    assert make(alternates=True).hold_until(0, under_way=5, requests=5, rows=5) is not None


def test_pops_and_acks_of_many_clients_leave_at_once() -> None:
    gathering = make(alternates=True)
    assert gathering.hold_until(0, under_way=ENOUGH - 1, requests=1, rows=1) is not None
    assert gathering.hold_until(0, under_way=ENOUGH, requests=1, rows=1) is None


def test_a_call_that_does_not_end_holds_up_others_only_briefly() -> None:
    gathering = make()
    until = gathering.hold_until(100, under_way=5, requests=1, rows=1)
    assert until is not None
    assert gathering.hold_until(until, under_way=5, requests=1, rows=1) is None


def test_a_call_that_is_worth_its_cost_leaves_at_once() -> None:
    gathering = make(row_share=0.3)
    assert gathering.hold_until(0, under_way=50, requests=ENOUGH, rows=0) is None
    assert gathering.hold_until(0, under_way=50, requests=1, rows=100) is None
    assert gathering.hold_until(0, under_way=50, requests=2, rows=20) is not None


def test_far_from_the_database_no_request_waits_for_others() -> None:
    gathering = make(is_near=False)
    assert gathering.hold_until(0, under_way=5, requests=1, rows=1) is None


async def test_near_is_what_was_measured_and_no_number_of_an_operator() -> None:
    async def pace_of(wait_ms: float, least: int, most: int) -> CallPace:
        async def measure() -> float:
            return wait_ms

        trips = RoundTrips(measure)
        trips.want()
        await wait_until_async(lambda: trips.shortest_ms, timeout_s=5, what="a measurement")
        return CallPace(InFlight(least, most, rows_max=2_000), trips, CallRoom(12))

    assert (await pace_of(0.5, 2, 8)).is_near()
    assert not (await pace_of(5.0, 2, 8)).is_near()
    assert not (await pace_of(0.5, 4, 4)).is_near()


@pytest.mark.parametrize("clients", [2, 4, 16, 64])
def test_few_clients_share_calls_and_lose_no_rate(clients: int) -> None:
    """In simulated time: single messages, next to the database, with costs that were measured."""
    world = World(
        clients=clients,
        round_trip_ms=0,
        start_ms=0.55,
        request_ms=0.02,
        broker_ms=0.06,
        broker_call_ms=0.25,
        client_ms=0.06,
        request_rows=1,
    )
    apart, together = (
        Simulation(world, InFlight(2, 8, rows_max=2_000), seed=1, gathers=gathers)
        for gathers in (False, True)
    )
    rate_apart, rate = apart.run(600), together.run(600)
    assert rate >= 0.99 * rate_apart
    if clients > 2:
        assert together.calls / rate < 0.9 * apart.calls / rate_apart


@dataclass
class Request:
    """A request for its own partition."""

    number: int
    weight: int = 1

    @property
    def keys(self) -> set[int]:
        return {self.number}


class Calls:
    """Calls that end when they are allowed to."""

    def __init__(self) -> None:
        #: The requests of each call.
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
    one: Dispatcher[Request] = Dispatcher(
        "test", batcher, calls.run, calls.fail, gathering=make(alternates=True)
    )
    one.add(Request(0))
    await wait_until_async(lambda: calls.left, timeout_s=5, what="the first call")
    return one


async def test_requests_that_gathered_leave_in_one_call_when_the_first_call_ends() -> None:
    calls = Calls()
    dispatcher = await start(calls)
    dispatcher.add(Request(1))

    def go_on() -> None:
        dispatcher.add(Request(2))
        calls.first_may_end.set()

    # After the turn of the loop in which the first one would have left.
    asyncio.get_running_loop().call_soon(go_on)
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
