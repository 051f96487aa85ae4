"""Bounds the calls in flight of each path: as configured, or as measured."""

from __future__ import annotations

from queenmq.engine.calls.in_flight import InFlight
from queenmq.engine.calls.pace import CallPace, CallRoom, RoundTrips
from queenmq.engine.lifecycle import Health
from queenmq.metrics.registry import Registry
from queenmq.server.wiring.limits import LEAST_CALLS, pop_slots
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database

#: Connections that calls leave to everything else: look-ups, leases, transactions, streams.
_RESERVE = 4


class Paces:
    """The paces of a broker. They share its connections and measurements.

    Measurements begin when calls ask for them, so a start has nothing to begin.
    """

    name = "call-paces"

    def __init__(self, settings: Settings, database: Database, registry: Registry) -> None:
        self._most = max(LEAST_CALLS, settings.db_pool_size // 2)
        self._round_trips = RoundTrips(database.time_commit)
        self._room = CallRoom(settings.db_pool_size - _RESERVE)
        self._slots = registry.gauges(
            "queen_call_slots", "Calls that a path may have in flight.", "path"
        )
        self._registry = registry
        self._is_started = False
        self.push = self._make(
            "push", LEAST_CALLS, settings.push_calls_max, rows_max=settings.push_rows_max
        )
        self.ack = self._make(
            "ack", LEAST_CALLS, settings.ack_calls_max, rows_max=settings.ack_rows_max
        )
        self.pop = self._make(
            "pop", pop_slots(settings), settings.pop_slots, rows_max=settings.pop_candidates_max
        )
        registry.gauge(
            "queen_db_wait_seconds",
            "Time that the smallest call travels and waits for its commit.",
            read=lambda: self._round_trips.shortest_ms / 1000,
            merge="max",
        )

    def _make(self, path: str, least: int, fixed: int, *, rows_max: int) -> CallPace:
        """Make the pace of a path. A number that an operator has set stays as it is."""
        least = fixed or least
        most = fixed or max(least, self._most)
        pace = CallPace(InFlight(least, most, rows_max=rows_max), self._round_trips, self._room)
        self._registry.follow(self._slots.of(path), lambda: pace.limit)
        return pace

    async def start(self) -> None:
        self._is_started = True

    async def stop(self) -> None:
        """Cancel a running measurement."""
        self._is_started = False
        await self._round_trips.stop()

    def health(self) -> Health:
        return Health.RUNNING if self._is_started else Health.STOPPED
