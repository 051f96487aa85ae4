"""GET /health, /health/live and /health/ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from queenmq import __version__, wire
from queenmq.clock import now_ms
from queenmq.engine.lifecycle import ServiceStatus
from queenmq.errors import InvalidRequest, QueenError, StorageUnavailable
from queenmq.server.answers.capabilities import NAMES, Capability, Circumstances, judge
from queenmq.server.answers.responses import json_answer
from queenmq.server.edge.exchange import Exchange
from queenmq.server.routing.spec import route
from queenmq.storage.spool import SpoolStats
from queenmq.storage.stores.admin import AdminStore

#: A database that takes longer than this is not ready for traffic.
_PING_S = 2.0


class HealthRoutes:
    """Routes of liveness, readiness and capabilities."""

    def __init__(
        self,
        store: AdminStore,
        *,
        circumstances: Callable[[], Circumstances],
        spool_stats: Callable[[], SpoolStats],
        services: Callable[[], Sequence[ServiceStatus]],
        problems: Callable[[], list[str]],
    ) -> None:
        self._store = store
        self._circumstances = circumstances
        self._spool_stats = spool_stats
        self._services = services
        #: Says what a person has to look at.
        self.problems = problems
        self.is_stopping = False

    @route("GET", "/health/live", wire.Live, is_hot=True)
    def live(self, exchange: Exchange) -> None:
        """Answer that the event loop runs. Nothing else is checked."""
        exchange.answer(200, b'{"status":"live"}')

    @route("GET", "/health/ready", wire.Live, query={"for": str}, also={503: wire.Live})
    async def ready(self, request: Request) -> Response:
        """Answer 200 if no stop is under way and requests are accepted: of the kind asked for, or
        of all that carry messages.
        """
        wanted = request.query_params.get("for")
        if wanted is not None and wanted not in NAMES:
            raise InvalidRequest(f"for must be one of {', '.join(NAMES)}; got {wanted!r}")
        _, found = await self.check_database()
        # A failing call for operators is no reason to redirect messages.
        asked = [wanted] if wanted is not None else [name for name in NAMES if name != "admin"]
        is_ready = not self.is_stopping and all(found[name].is_accepted for name in asked)
        return json_answer(
            wire.Live("ready" if is_ready else "not ready"), 200 if is_ready else 503
        )

    @route("GET", "/health", wire.Health, also={503: wire.Health})
    async def health(self, _: Request) -> Response:
        """Return the overview that clients, dashboards and operators read."""
        is_connected, found = await self.check_database()
        is_well = is_connected and all(one.is_well for one in found.values())
        problems = self.problems()
        status = ("degraded" if problems else "healthy") if is_well else "unhealthy"
        return json_answer(
            wire.Health(
                status=status,
                database="connected" if is_connected else "disconnected",
                capabilities={
                    name: wire.CapabilityState(one.status, one.reason)
                    for name, one in found.items()
                },
                problems=problems,
                spool=self._spool(),
                server="queen",
                worker_id=0,
                version=__version__,
                shared_state=wire.SharedState(),
                queen=wire.WorkerState(0, status),
                services={name: health.value for name, health in self._services()},
                error=None if is_well else _sentence(found),
            ),
            200 if is_well else 503,
        )

    def _spool(self) -> wire.SpoolState:
        stats = self._spool_stats()
        return wire.SpoolState(stats.pending_records, stats.pending_bytes, stats.aside_records)

    async def check_database(self) -> tuple[bool, dict[str, Capability]]:
        """Return whether the database answers now, and the resulting capabilities."""
        silence = await self._ping()
        known = self._circumstances()
        if known.outage is None and silence is not None:
            known = known._replace(outage=silence)
        return silence is None, judge(known, now_ms())

    async def _ping(self) -> str | None:
        """Return why the database does not answer, or None when it does."""
        try:
            async with asyncio.timeout(_PING_S):
                await self._store.ping()
        except TimeoutError:
            return "no_answer"
        except StorageUnavailable as error:
            return error.reason
        except QueenError:
            return "failed"
        return None


def _sentence(found: Mapping[str, Capability]) -> str:
    """Return the kinds of requests that are not served normally."""
    parts = [
        f"{name} is {one.status} ({one.reason})" for name, one in found.items() if not one.is_well
    ]
    return f"{', '.join(parts)}; see the log"
