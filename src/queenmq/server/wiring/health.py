"""Gathers the facts of the health routes from the parts of a broker."""

from __future__ import annotations

from collections.abc import Callable

from queenmq.engine.maintenance import Maintenance
from queenmq.engine.push.spooling import PushSpool
from queenmq.errors import SpoolFull, StorageUnavailable
from queenmq.server.answers.capabilities import Circumstances, Failure
from queenmq.server.routes.inspection.health import HealthRoutes
from queenmq.storage.connection.database import Database
from queenmq.storage.spool import SpoolStats
from queenmq.storage.stores.admin import AdminStore


def make_health(
    store: AdminStore,
    database: Database,
    spool: PushSpool,
    maintenance: Maintenance,
    *,
    spool_stats: Callable[[], SpoolStats],
    is_down: Callable[[], bool],
    problems: Callable[[], list[str]],
) -> HealthRoutes:
    """Return the routes. They gather the facts on each request."""

    def gather() -> Circumstances:
        failures = database.failures.items()
        return Circumstances(
            outage=_reason_of(database.watch.error) if is_down() else None,
            failures={kind: Failure(at_ms, error.reason) for kind, (at_ms, error) in failures},
            is_push_paused=spool.is_buffering,
            is_pop_paused=maintenance.is_pop,
            spooled=spool_stats().pending_records,
            drain_trouble=_reason_of(spool.drain_error) if spool.drain_error else None,
            spool_trouble=_spool_trouble(
                spool, spool_stats(), is_blocked=is_down() or spool.is_buffering
            ),
        )

    return HealthRoutes(store, circumstances=gather, spool_stats=spool_stats, problems=problems)


def _reason_of(error: Exception | None) -> str:
    if error is None:
        # The database answers, and the broker is about to join it.
        return "starting"
    return error.reason if isinstance(error, StorageUnavailable) else "failed"


def _spool_trouble(spool: PushSpool, stats: SpoolStats, *, is_blocked: bool) -> str | None:
    """Say why no push is kept on disk, or None while pushes are."""
    # In an outage and in maintenance pushes are kept behind what is stuck, see PushSpool.take.
    if stats.is_stuck and not is_blocked:
        return "fault"
    if spool.keep_error is None:
        return None
    return "spool_full" if isinstance(spool.keep_error, SpoolFull) else "spool_failed"
