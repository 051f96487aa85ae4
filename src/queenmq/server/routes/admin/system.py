"""Maintenance mode for pushes and for pops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.engine.maintenance import POP_SWITCH, PUSH_SWITCH, Maintenance
from queenmq.server.answers.responses import json_answer, read_request
from queenmq.settings import Settings
from queenmq.storage.spool import SpoolStats


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

    async def show(self, request: Request) -> Response:
        """Both switches, and what the spool of this broker holds."""
        return json_answer(
            {
                "maintenanceMode": self._maintenance.is_push,
                "popMaintenanceMode": self._maintenance.is_pop,
                **self._buffer(),
                "bufferStats": self._stats(),
            }
        )

    async def switch(self, request: Request) -> Response:
        """Buffer pushes on disk, or stop doing so and drain them."""
        body = await read_request(request, wire.SwitchRequest)
        await self._maintenance.switch(PUSH_SWITCH, body.enabled)
        message = (
            "maintenance mode is on: pushes are kept on disk, pops go on"
            if body.enabled
            else "maintenance mode is off: kept pushes are being stored"
        )
        answer = {"maintenanceMode": body.enabled, **self._buffer(), "message": message}
        return json_answer(answer)

    async def show_pop(self, request: Request) -> Response:
        """Whether pops are paused."""
        return json_answer(_pop_answer(self._maintenance.is_pop))

    async def switch_pop(self, request: Request) -> Response:
        """Pause all pops, or serve them again."""
        body = await read_request(request, wire.SwitchRequest)
        await self._maintenance.switch(POP_SWITCH, body.enabled)
        return json_answer(_pop_answer(body.enabled))

    def _buffer(self) -> dict[str, Any]:
        stats = self._spool_stats()
        return {"bufferedMessages": stats.pending_records, "bufferHealthy": not stats.aside_records}

    def _stats(self) -> dict[str, Any]:
        stats = self._spool_stats()
        return {
            "pendingCount": stats.pending_records,
            "failedCount": stats.aside_records,
            "dbHealthy": not self._is_down(),
            "failedFiles": {
                "count": stats.aside_records,
                "totalBytes": stats.aside_bytes,
                "totalMB": round(stats.aside_bytes / 2**20, 3),
                "failoverCount": stats.aside_records,
                "qos0Count": 0,
            },
        }


def _pop_answer(is_paused: bool) -> dict[str, Any]:
    message = "pops are paused: every pop answers empty" if is_paused else "pops are served"
    return {"popMaintenanceMode": is_paused, "message": message}
