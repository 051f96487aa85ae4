"""Maintenance mode for pushes and for pops."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.engine.maintenance import POP_SWITCH, PUSH_SWITCH, Maintenance
from queenmq.server.answers.responses import json_answer, read_request
from queenmq.server.routing.spec import route
from queenmq.settings import Settings
from queenmq.storage.spool import SpoolStats

_PUSHES = "/api/v1/system/maintenance"
_POPS = "/api/v1/system/maintenance/pop"


class SystemRoutes:
    """Switches that all brokers obey."""

    def __init__(
        self,
        maintenance: Maintenance,
        settings: Settings,
        *,
        spool_stats: Callable[[], SpoolStats],
        is_down: Callable[[], bool],
    ) -> None:
        self._maintenance = maintenance
        self._settings = settings
        self._spool_stats = spool_stats
        self._is_down = is_down

    @route("GET", _PUSHES, wire.MaintenanceState)
    async def show(self, request: Request) -> Response:
        """Return both switches, and what the spool of this broker holds."""
        stats = self._spool_stats()
        return json_answer(
            wire.MaintenanceState(
                maintenance_mode=self._maintenance.is_push,
                pop_maintenance_mode=self._maintenance.is_pop,
                buffered_messages=stats.pending_records,
                buffer_healthy=not stats.aside_records,
                buffer_stats=self._buffer(stats),
            )
        )

    @route("POST", _PUSHES, wire.MaintenanceSwitched, request=wire.SwitchRequest)
    async def switch(self, request: Request) -> Response:
        """Buffer pushes on disk, or stop doing so and drain them."""
        body = await read_request(request, wire.SwitchRequest)
        await self._maintenance.switch(PUSH_SWITCH, body.enabled)
        message = (
            "maintenance mode is on: pushes are kept on disk, pops go on"
            if body.enabled
            else "maintenance mode is off: kept pushes are being stored"
        )
        stats = self._spool_stats()
        return json_answer(
            wire.MaintenanceSwitched(
                maintenance_mode=body.enabled,
                buffered_messages=stats.pending_records,
                buffer_healthy=not stats.aside_records,
                message=message,
            )
        )

    @route("GET", _POPS, wire.PopMaintenance)
    async def show_pop(self, request: Request) -> Response:
        """Return whether pops are paused."""
        return json_answer(_pop_answer(self._maintenance.is_pop))

    @route("POST", _POPS, wire.PopMaintenance, request=wire.SwitchRequest)
    async def switch_pop(self, request: Request) -> Response:
        """Pause all pops, or serve them again."""
        body = await read_request(request, wire.SwitchRequest)
        await self._maintenance.switch(POP_SWITCH, body.enabled)
        return json_answer(_pop_answer(body.enabled))

    def _buffer(self, stats: SpoolStats) -> wire.BufferState:
        return wire.BufferState(
            pending_count=stats.pending_records,
            failed_count=stats.aside_records,
            db_healthy=not self._is_down(),
            failed_files=wire.FailedFiles(
                count=stats.aside_records,
                total_bytes=stats.aside_bytes,
                total_mb=round(stats.aside_bytes / 2**20, 3),
                failover_count=stats.aside_records,
                qos0_count=0,
            ),
        )


def _pop_answer(is_paused: bool) -> wire.PopMaintenance:
    message = "pops are paused: every pop answers empty" if is_paused else "pops are served"
    return wire.PopMaintenance(pop_maintenance_mode=is_paused, message=message)
