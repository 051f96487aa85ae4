"""The number of calls in flight follows the distance to the database, within its bounds."""

from __future__ import annotations

import asyncio

import pytest

from queenmq.engine.calls import pace
from queenmq.engine.calls.in_flight import CallLoad, EndedCall, InFlight, decide_in_flight
from queenmq.engine.calls.pace import CallPace, CallRoom, RoundTrips
from queenmq.errors import StorageUnavailable
from tests.support.distant_database import Simulation, World
from tests.support.waiting import wait_until_async

FIXED = (2, 4, 8, 16)


def load(wait_ms: float, *, work_ms: float = 4.0, outstanding: float = 64) -> CallLoad:
    """Calls of 20 requests that bring so much work."""
    return CallLoad(wait_ms, wait_ms + work_ms, 20, outstanding, 200)


def make(least: int, most: int) -> InFlight:
    return InFlight(least, most, rows_max=2_000)


def test_few_calls_next_door_and_more_with_the_distance() -> None:
    near, nearby, far, very_far = (
        decide_in_flight(load(wait), least=2, most=16) for wait in (0.1, 1, 5, 20)
    )
    assert near == nearby == 2
    assert min(far, very_far) >= 8


def test_bounds_and_strange_measurements_are_respected() -> None:
    for wait in (0.0, 0.001, 5.0, 10_000.0):
        for work in (0.0, 0.1, 500.0):
            for outstanding in (0.0, 1.0, 3.0, 50_000.0):
                one = load(wait, work_ms=work, outstanding=outstanding)
                assert 2 <= decide_in_flight(one, least=2, most=8) <= 8
    # A call that was quicker than the shortest commit, and one without anything in it.
    for odd in (CallLoad(9, 1, 5, 9, 20), CallLoad(0, 0, 0, 0, 0)):
        assert 2 <= decide_in_flight(odd, least=2, most=8) <= 8
    # A lone request needs no second call.
    assert decide_in_flight(load(50, outstanding=1), least=2, most=16) == 2


def test_a_number_that_was_set_stays() -> None:
    fixed = make(5, 5)
    fixed.note(EndedCall(50, 20, 200), outstanding=400, wait_ms=45, room=16)
    assert fixed.limit == 5


def test_adaptive_is_near_the_best_fixed_number_of_each_cell() -> None:
    """A seeded simulation for one cost of calls. docs/performance.md has the wider grid."""
    shares = {}
    for clients in (1, 16, 64, 256):
        for away_ms in (0, 1, 5):
            world = World(clients=clients, round_trip_ms=away_ms)
            rates = [Simulation(world, make(one, one), seed=1).run(600) for one in FIXED]
            adaptive = Simulation(world, make(2, 16), seed=1).run(600)
            shares[clients, away_ms] = round(adaptive / max(rates), 2)
    assert {cell: share for cell, share in shares.items() if share < 0.9} == {}


def test_a_database_5_ms_away_keeps_most_of_the_rate() -> None:
    near, far = (
        Simulation(World(clients=64, round_trip_ms=away_ms), make(2, 8), seed=1).run(600)
        for away_ms in (0, 5)
    )
    assert far >= 0.7 * near


def test_a_distance_that_ends_is_forgotten() -> None:
    flight = make(2, 16)
    Simulation(World(clients=64, round_trip_ms=5), flight, seed=1).run(300)
    assert flight.limit >= 4
    Simulation(World(clients=64, round_trip_ms=0, commit_ms=0.05), flight, seed=1).run(300)
    assert flight.limit <= 3


def test_paths_share_the_connections() -> None:
    room = CallRoom(12)
    paths = [make(2, 8) for _ in range(3)]
    for path in paths:
        room.add(path)
    for _ in range(50):
        for path in paths:
            call = EndedCall(25, 20, 200)
            path.note(call, outstanding=400, wait_ms=20, room=room.left_for(path))
            assert sum(one.limit for one in paths) <= 12
    assert sum(one.limit for one in paths) == 12


async def test_round_trips_are_measured_only_while_requests_wait() -> None:
    asked = 0

    async def measure() -> float:
        nonlocal asked
        asked += 1
        return 5.0

    trips = RoundTrips(measure)
    pace = CallPace(make(2, 8), trips, CallRoom(12))
    # Everything there is was in the call.
    pace.note(EndedCall(6, 4, 40), outstanding=4)
    assert trips.is_measuring is False
    # Requests were left behind. One measurement a second is enough.
    for _ in range(3):
        pace.note(EndedCall(6, 4, 40), outstanding=40)
    await wait_until_async(lambda: trips.shortest_ms, timeout_s=5, what="a measurement")
    assert (asked, trips.shortest_ms) == (1, 5.0)
    await trips.stop()


async def test_a_measurement_that_fails_leaves_nothing_behind() -> None:
    async def measure() -> float:
        raise StorageUnavailable("away")

    trips = RoundTrips(measure)
    trips.want()
    assert trips.is_measuring
    await wait_until_async(lambda: not trips.is_measuring, timeout_s=5, what="the failure")
    assert trips.shortest_ms == 0
    await trips.stop()


async def test_a_slow_measurement_is_the_only_one_and_ends_with_the_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def measure() -> float:
        await asyncio.Event().wait()
        return 0.0

    now = [0.0]
    monkeypatch.setattr(pace, "now_ms", lambda: now[0])
    trips = RoundTrips(measure)
    for _ in range(3):
        trips.want()
        now[0] += 60_000
    (only,) = (task for task in asyncio.all_tasks() if task.get_name() == "round-trip")
    assert trips.is_measuring
    await trips.stop()
    assert only.cancelled() and not trips.is_measuring
