"""Gathers the facts of the health routes from the parts of a broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from queenmq.engine.lifecycle import ServiceStatus
from queenmq.engine.maintenance import Maintenance
from queenmq.engine.push.spooling import PushSpool
from queenmq.errors import SpoolFull, StorageUnavailable
from queenmq.server.answers.capabilities import Circumstances, Failure
from queenmq.server.answers.problems import find_problems
from queenmq.server.routes.inspection.health import HealthRoutes
from queenmq.server.wiring.ground import Ground
from queenmq.server.wiring.pushing import Pushing
from queenmq.storage.spool import SpoolStats


def make_health(
    ground: Ground,
    pushing: Pushing,
    maintenance: Maintenance,
    *,
    report_services: Callable[[], Sequence[ServiceStatus]],
) -> HealthRoutes:
    """Return the routes, which collect fresh facts each time."""
    database, spool, drain = ground.database, pushing.spool, pushing.drain
    is_down, spool_stats = ground.membership.is_down, pushing.spool_files.stats

    def gather() -> Circumstances:
        failures = database.failures.items()
        return Circumstances(
            outage=_reason_of(database.watch.error) if is_down() else None,
            failures={kind: Failure(at_ms, error.reason) for kind, (at_ms, error) in failures},
            is_push_paused=spool.is_buffering,
            is_pop_paused=maintenance.is_pop,
            spooled=spool_stats().pending_records,
            drain_trouble=_reason_of(drain.error) if drain.error else None,
            spool_trouble=_spool_trouble(spool, spool_stats()),
        )

    def list_problems() -> list[str]:
        return find_problems(
            database.faults.current,
            spool_stats(),
            report_services(),
            undecided=pushing.operations.undecided,
        )

    return HealthRoutes(
        ground.admin,
        circumstances=gather,
        spool_stats=spool_stats,
        services=report_services,
        problems=list_problems,
    )


def _reason_of(error: Exception | None) -> str:
    if error is None:
        # The database answers, and the broker is about to join it.
        return "starting"
    return error.reason if isinstance(error, StorageUnavailable) else "failed"


def _spool_trouble(spool: PushSpool, stats: SpoolStats) -> str | None:
    """Say why no push is kept on disk, or None while pushes are."""
    # In an outage and in maintenance, pushes go behind stuck ones. See PushSpool.take.
    if stats.is_stuck and not spool.is_blocked:
        return "fault"
    if spool.keep_error is None:
        return None
    return "spool_full" if isinstance(spool.keep_error, SpoolFull) else "spool_failed"
