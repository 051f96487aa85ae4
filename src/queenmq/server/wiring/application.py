"""Builds the application: the routes of a broker on its parts."""

from __future__ import annotations

from dataclasses import dataclass

from queenmq import wire
from queenmq.engine.load.manager import LoadManager
from queenmq.engine.maintenance import Maintenance
from queenmq.server.app import App
from queenmq.server.auth.wiring import Access
from queenmq.server.metering.refusals import Refusals
from queenmq.server.routes.admin.settings import SettingRoutes
from queenmq.server.routes.hot.pop import PopRoute
from queenmq.server.routes.hot.push import PushRoute
from queenmq.server.routes.inspection.health import HealthRoutes
from queenmq.server.routes.inspection.metrics import MetricsRoutes
from queenmq.server.wiring.acking import Acking
from queenmq.server.wiring.ground import Ground
from queenmq.server.wiring.metering import Metering
from queenmq.server.wiring.popping import Popping
from queenmq.server.wiring.pushing import Pushing
from queenmq.server.wiring.routes import Built, Hooks, Services, Stores, make_routes
from queenmq.storage.stores.retention import RetentionStore
from queenmq.storage.stores.traces import TraceStore


@dataclass(frozen=True, kw_only=True)
class Parts:
    """All that routes stand on."""

    ground: Ground
    pushing: Pushing
    popping: Popping
    acking: Acking
    maintenance: Maintenance
    load: LoadManager
    metering: Metering
    access: Access
    health: HealthRoutes


def make_application(parts: Parts) -> App:
    """Build the application of one broker."""
    ground, metering = parts.ground, parts.metering
    built = _make_built(parts)
    routes = make_routes(
        ground.settings,
        ground.database,
        parts.access,
        stores=Stores(
            admin=ground.admin,
            traces=TraceStore(ground.database),
            removals=RetentionStore(ground.database),
            operations=ground.operations,
            journal=parts.pushing.journal,
        ),
        services=_list_services(parts),
        built=built,
        hooks=Hooks(
            source_url=ground.orders.url,
            spool_stats=parts.pushing.spool_files.stats,
            is_down=ground.membership.is_down,
            queue_max=parts.pushing.room.measure,
            count_messages=metering.count_messages,
            shared_state=lambda: _read_shared_state(parts),
        ),
    )
    return App(
        routes,
        pop=built.pop,
        meter=metering.meter,
        refusals=Refusals(ground.registry),
        access=parts.access,
    )


def _make_built(parts: Parts) -> Built:
    ground, pushing, metering = parts.ground, parts.pushing, parts.metering
    return Built(
        push=PushRoute(
            pushing.push,
            parts.load,
            ground.settings,
            wait_s=pushing.operations.wait_s,
            traffic=metering.traffic,
        ),
        pop=PopRoute(
            parts.popping.pop,
            parts.popping.subscriptions,
            parts.load,
            parts.maintenance,
            ground.settings,
            metering.traffic,
            ground.opener,
        ),
        health=parts.health,
        metrics=MetricsRoutes(
            metering.scrape,
            metering.process,
            metering.meter,
            count_messages=metering.count_messages,
        ),
        settings=SettingRoutes(ground.settings, ground.orders.origins),
    )


def _list_services(parts: Parts) -> Services:
    return Services(
        pop=parts.popping.pop,
        ack=parts.acking.ack,
        leases=parts.popping.leases,
        transactions=parts.acking.transactions,
        cycles=parts.acking.cycles,
        operations=parts.pushing.operations,
        maintenance=parts.maintenance,
        load=parts.load,
        traffic=parts.metering.traffic,
        opener=parts.ground.opener,
        news=parts.ground.news,
    )


def _read_shared_state(parts: Parts) -> wire.BrokerMemory:
    """Return what this broker remembers of what all brokers share."""
    return wire.BrokerMemory(
        enabled=True,
        partitions_remembered=len(parts.ground.catalogue),
        maintenance_mode=parts.maintenance.is_push,
        pop_maintenance_mode=parts.maintenance.is_pop,
        is_listening=parts.ground.settings.wake_listen,
        database=parts.ground.membership.database_id,
    )
