"""Declares the background services of a broker, and the order of their start and stop."""

from __future__ import annotations

from typing import NamedTuple

from queenmq.engine.lifecycle import Service, ServiceGroup, ServiceStatus
from queenmq.engine.load.manager import LoadManager
from queenmq.engine.maintenance import Maintenance
from queenmq.engine.queued_pushes.processor import OperationProcessor
from queenmq.server.auth.wiring import Access
from queenmq.server.wiring.ground import Ground
from queenmq.server.wiring.jobs import make_jobs
from queenmq.server.wiring.joining import Joining
from queenmq.server.wiring.metering import Metering
from queenmq.server.wiring.pushing import Pushing
from queenmq.storage.connection.wake_listener import WakeListener


class Lifecycle(NamedTuple):
    """All services: those that run always, and those that `joining` runs with the database."""

    always: ServiceGroup
    joined: ServiceGroup
    joining: Joining

    def report(self) -> list[ServiceStatus]:
        """Return the health of every service."""
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
    jobs = make_jobs(ground, metering, maintenance, access, spool=pushing.spool_files, load=load)
    joined: list[Service] = [processor, wake, *jobs]
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
        # Opens the spool, and starts the services that need the database once it answers.
        joining,
        pushing.drain,
        load,
        # Stops before all that, because it writes the last minute of the history.
        metering,
        ground.paces,
    ]
    return Lifecycle(ServiceGroup("always", always), group, joining)
