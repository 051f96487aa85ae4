"""Builds the objects whose methods are routes, from the parts of a broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from queenmq import wire
from queenmq.auth.targets import parse_targets
from queenmq.engine.ack.leases import LeaseService
from queenmq.engine.ack.service import AckService
from queenmq.engine.load.manager import LoadManager
from queenmq.engine.maintenance import Maintenance
from queenmq.engine.news import News
from queenmq.engine.pop.service import PopService
from queenmq.engine.queued_pushes.metrics import OperationMetrics
from queenmq.engine.streams.service import CycleService
from queenmq.engine.transactions import TransactionService
from queenmq.server.answers.opening import Opener
from queenmq.server.auth.wiring import Access
from queenmq.server.metering.traffic import Traffic
from queenmq.server.routes.admin.aside import AsideRoutes
from queenmq.server.routes.admin.groups import GroupRoutes
from queenmq.server.routes.admin.moving import MigrationRoutes
from queenmq.server.routes.admin.operations import OperationRoutes
from queenmq.server.routes.admin.places import PlaceRoutes
from queenmq.server.routes.admin.queues import QueueRoutes
from queenmq.server.routes.admin.resources import ResourceRoutes
from queenmq.server.routes.admin.retention import RetentionRoutes
from queenmq.server.routes.admin.settings import SettingRoutes
from queenmq.server.routes.admin.steering import SteeringRoutes
from queenmq.server.routes.admin.system import SystemRoutes
from queenmq.server.routes.hot.ack import AckRoute
from queenmq.server.routes.hot.pop import PopRoute
from queenmq.server.routes.hot.push import PushRoute
from queenmq.server.routes.hot.transactions import TransactionRoutes
from queenmq.server.routes.inspection.dashboard import DashboardRoutes
from queenmq.server.routes.inspection.health import HealthRoutes
from queenmq.server.routes.inspection.metrics import MetricsRoutes
from queenmq.server.routes.inspection.openapi import OpenApiRoute
from queenmq.server.routes.inspection.pipeline import PipelineRoutes
from queenmq.server.routing.spec import specs_of
from queenmq.server.wiring.inspection import make_inspection
from queenmq.server.wiring.streams import make_stream_routes
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database
from queenmq.storage.spool import SpoolStats
from queenmq.storage.spool.push_journal import SpoolJournal
from queenmq.storage.stores.admin import AdminStore
from queenmq.storage.stores.groups import GroupStore
from queenmq.storage.stores.operations import PostgresOperationStore
from queenmq.storage.stores.pipeline import PipelineStore
from queenmq.storage.stores.retention import RetentionStore
from queenmq.storage.stores.steering import SteeringStore
from queenmq.storage.stores.traces import TraceStore


@dataclass(frozen=True, kw_only=True)
class Stores:
    """The stores that routes use without a service in between."""

    admin: AdminStore
    traces: TraceStore
    removals: RetentionStore
    operations: PostgresOperationStore
    journal: SpoolJournal


@dataclass(frozen=True, kw_only=True)
class Services:
    """The services that routes use."""

    pop: PopService
    ack: AckService
    leases: LeaseService
    transactions: TransactionService
    cycles: CycleService
    operations: OperationMetrics
    maintenance: Maintenance
    load: LoadManager
    traffic: Traffic
    opener: Opener
    #: To which changes are published.
    news: News


@dataclass(frozen=True, kw_only=True)
class Built:
    """Routes that the broker needs for itself, and so has built already."""

    push: PushRoute
    pop: PopRoute
    health: HealthRoutes
    metrics: MetricsRoutes
    settings: SettingRoutes


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """Values that routes read from the broker."""

    #: The database of this broker.
    source_url: str
    spool_stats: Callable[[], SpoolStats]
    is_down: Callable[[], bool]
    queue_max: Callable[[], int]
    count_messages: Callable[[], int]
    shared_state: Callable[[], wire.BrokerMemory]


def make_routes(
    settings: Settings,
    database: Database,
    access: Access,
    *,
    stores: Stores,
    services: Services,
    built: Built,
    hooks: Hooks,
) -> list[object]:
    """Build the routes of one broker. The last route describes all others."""
    reachable, traffic = access.reachable, services.traffic
    routes: list[object] = [
        built.push,
        built.pop,
        AckRoute(services.ack, built.pop, services.load, settings, reachable, traffic),
        TransactionRoutes(services.transactions, services.leases, settings, reachable, traffic),
        *_make_admin(settings, database, stores, services, hooks),
        *make_inspection(
            settings,
            database,
            stores.traces,
            reachable,
            news=services.news,
            pop=services.pop,
            load=services.load,
            maintenance=services.maintenance,
            operations=services.operations,
            health=built.health,
            spool_stats=hooks.spool_stats,
            is_down=hooks.is_down,
            count_messages=hooks.count_messages,
            queue_max=hooks.queue_max,
            opener=services.opener,
        ),
        *make_stream_routes(
            settings,
            database,
            services.cycles,
            services.load,
            reachable,
            services.traffic,
            wait_s=services.operations.wait_s,
            news=services.news,
        ),
        built.health,
        built.metrics,
        built.settings,
        access.tokens,
        access.sessions,
        access.audit,
        DashboardRoutes(),
    ]
    routes.append(OpenApiRoute(lambda: [spec for one in routes for spec in specs_of(type(one))]))
    return routes


def _make_admin(
    settings: Settings, database: Database, stores: Stores, services: Services, hooks: Hooks
) -> list[object]:
    groups = GroupStore(database)
    news = services.news
    return [
        QueueRoutes(stores.admin, settings, services.opener.vault, news=news),
        GroupRoutes(
            groups,
            settings,
            paused_groups=lambda: services.maintenance.paused_groups,
            news=news,
        ),
        SteeringRoutes(
            SteeringStore(database, lock_timeout_ms=settings.push_wait_ms),
            services.maintenance,
            settings,
            news=news,
        ),
        ResourceRoutes(groups, settings),
        PlaceRoutes(groups, shared=hooks.shared_state),
        RetentionRoutes(stores.removals),
        OperationRoutes(
            stores.operations,
            services.operations,
            spool_stats=hooks.spool_stats,
            pressure=lambda: services.load.pressure.value,
            news=news,
        ),
        AsideRoutes(
            stores.journal,
            stores.operations,
            spool_stats=hooks.spool_stats,
            news=news,
        ),
        PipelineRoutes(PipelineStore(database)),
        MigrationRoutes(
            stores.operations,
            source_url=hooks.source_url,
            targets=parse_targets(settings.move_targets),
        ),
        SystemRoutes(
            services.maintenance,
            settings,
            spool_stats=hooks.spool_stats,
            is_down=hooks.is_down,
        ),
    ]
