"""Declares the background services of a broker, and the order of their start and stop."""

from __future__ import annotations

from typing import NamedTuple

from queenmq.engine.lifecycle import Service, ServiceGroup, ServiceStatus
from queenmq.engine.load.manager import LoadManager
from queenmq.engine.maintenance import Maintenance
from queenmq.engine.queued_pushes.processor import OperationProcessor
from queenmq.server.auth.wiring import Access
from queenmq.server.wiring.ground import Ground
from queenmq.server.wiring.joining import Joining
from queenmq.server.wiring.metering import Metering
from queenmq.server.wiring.pushing import Pushing
from queenmq.services.idle_partitions import IdlePartitions
from queenmq.services.janitor import AccessSweep, Janitor, KeySweep, LeaseSweep
from queenmq.services.periodic import Job, Periodic
from queenmq.services.retention import Retention
from queenmq.services.switches import Switches
from queenmq.services.token_watch import TokenWatch
from queenmq.storage.connection.wake_listener import WakeListener
from queenmq.storage.stores.retention import RetentionStore
from queenmq.storage.stores.traces import TraceStore


class Lifecycle(NamedTuple):
    """All services: those that run always, and those that `joining` runs with the database."""

    always: ServiceGroup
    joined: ServiceGroup
    joining: Joining

    def report(self) -> list[ServiceStatus]:
        """Return how every service is."""
        return [*self.always.report(), *self.joined.report()]


def declare_services(
    ground: Ground,
    *,
    pushing: Pushing,
    processor: OperationProcessor,
    wake: WakeListener,
    load: LoadManager,
    metering: Metering,
    maintenance: Maintenance,
    access: Access,
) -> Lifecycle:
    """Return the services in the order in which they start. They stop in the reverse order."""
    jobs = _make_jobs(ground, metering, maintenance, access)
    joined: list[Service] = [processor, wake, *map(Periodic, jobs)]
    group = ServiceGroup("joined", joined)
    joining = Joining(
        ground.orders,
        ground.database,
        ground.membership,
        spool=pushing.spool_files,
        state=ground.operations,
        maintenance=maintenance,
        joined=group,
    )
    always: list[Service] = [
        ground.database,
        # Opens the spool, and starts what has joined if the database is there.
        joining,
        pushing.drain,
        load,
        # Stops before all that, because it writes the last minute of the history.
        metering,
        ground.paces,
    ]
    return Lifecycle(ServiceGroup("always", always), group, joining)


def _make_jobs(
    ground: Ground, metering: Metering, maintenance: Maintenance, access: Access
) -> list[Job]:
    settings, admin = ground.settings, ground.admin
    removals = RetentionStore(ground.database)
    return [
        LeaseSweep(admin),
        KeySweep(admin, keep_s=settings.push_key_keep_s),
        Janitor(
            ground.operations,
            admin,
            TraceStore(ground.database),
            admin,
            admin,
            trace_keep_s=settings.trace_retention_s,
            history_keep_s=settings.ack_history_hours * 3_600,
        ),
        Retention(removals, ground.registry, interval_s=settings.retention_interval_s),
        IdlePartitions(removals, ground.registry, interval_s=settings.partition_removal_interval_s),
        Switches(maintenance),
        TokenWatch(access.gate),
        AccessSweep(
            access.token_store,
            access.audit_store,
            audit_keep_s=settings.audit_retention_days * 86_400,
        ),
        metering.history,
    ]
