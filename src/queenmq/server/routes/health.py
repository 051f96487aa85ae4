"""GET /health, /health/live and /health/ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from queenmq import __version__
from queenmq.errors import QueenError
from queenmq.server.responses import json_answer
from queenmq.storage.admin_store import AdminStore

#: A database that takes longer than this is not one to send traffic to.
_PING_S = 2.0


class HealthRoutes:
    """Whether the process lives, and whether it can serve."""

    def __init__(self, store: AdminStore, *, problems: Callable[[], list[str]]) -> None:
        self._store = store
        self._problems = problems
        self.is_stopping = False

    async def live(self, _: Request) -> Response:
        """The event loop turns; nothing else is looked at."""
        return json_answer({"status": "live"})

    async def ready(self, _: Request) -> Response:
        """The database answers and no stop is under way."""
        is_ready = not self.is_stopping and await self._is_connected()
        return json_answer(
            {"status": "ready" if is_ready else "not ready"}, 200 if is_ready else 503
        )

    async def health(self, _: Request) -> Response:
        """The overview that clients and dashboards read."""
        is_connected = await self._is_connected()
        problems = self._problems()
        status = ("degraded" if problems else "healthy") if is_connected else "unhealthy"
        return json_answer(
            {
                "status": status,
                "database": "connected" if is_connected else "disconnected",
                "problems": problems,
                "server": "queen",
                "worker_id": 0,
                "version": __version__,
                "shared_state": {"enabled": False},
                "queen": {"worker_id": 0, "status": status},
            },
            200 if is_connected else 503,
        )

    async def _is_connected(self) -> bool:
        try:
            async with asyncio.timeout(_PING_S):
                await self._store.ping()
        except (QueenError, TimeoutError):
            return False
        return True
