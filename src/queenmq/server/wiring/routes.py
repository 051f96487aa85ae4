"""Builds the objects whose methods are routes, from what the broker is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from queenmq import wire
from queenmq.engine.ack.leases import LeaseService
from queenmq.engine.ack.service import AckService
from queenmq.engine.load.manager import LoadManager
from queenmq.engine.maintenance import Maintenance
from queenmq.engine.pop.service import PopService
from queenmq.engine.queued_pushes.metrics import OperationMetrics
from queenmq.engine.streams.service import CycleService
from queenmq.engine.transactions import TransactionService
from queenmq.server.auth.wiring import Access
from queenmq.server.metering.traffic import Traffic
from queenmq.server.routes.admin.aside import AsideRoutes
from queenmq.server.routes.admin.groups import GroupRoutes
from queenmq.server.routes.admin.operations import OperationRoutes
from queenmq.server.routes.admin.places import PlaceRoutes
from queenmq.server.routes.admin.queues import QueueRoutes
from queenmq.server.routes.admin.resources import ResourceRoutes
from queenmq.server.routes.admin.retention import RetentionRoutes
from queenmq.server.routes.admin.system import SystemRoutes
from queenmq.server.routes.hot.ack import AckRoute
from queenmq.server.routes.hot.pop import PopRoute
from queenmq.server.routes.hot.push import PushRoute
from queenmq.server.routes.hot.transactions import TransactionRoutes
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
from queenmq.storage.stores.traces import TraceStore


@dataclass(frozen=True, kw_only=True)
class Stores:
    """What routes read from and write to without a service in between."""

    admin: AdminStore
    traces: TraceStore
    removals: RetentionStore
    operations: PostgresOperationStore
    journal: SpoolJournal


@dataclass(frozen=True, kw_only=True)
class Services:
    """What routes hand their work to."""

    pop: PopService
    ack: AckService
    leases: LeaseService
    transactions: TransactionService
    cycles: CycleService
    operations: OperationMetrics
    maintenance: Maintenance
    load: LoadManager
    traffic: Traffic


@dataclass(frozen=True, kw_only=True)
class Built:
    """Routes that the broker needs for itself, and so has built already."""

    push: PushRoute
    pop: PopRoute
    health: HealthRoutes
    metrics: MetricsRoutes


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What routes ask the broker, and what they tell it."""

    spool_stats: Callable[[], SpoolStats]
    is_down: Callable[[], bool]
    queue_max: Callable[[], int]
    count_messages: Callable[[], int]
    shared_state: Callable[[], wire.BrokerMemory]
    on_queue_changed: Callable[[str], None]
    #: Is told the queue and the group.
    on_group_deleted: Callable[[str, str], None]
    on_operations_retried: Callable[[], None]
    on_aside_retried: Callable[[], None]


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
    """Build the routes of one broker; the last of them describes all."""
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
            pop=services.pop,
            load=services.load,
            maintenance=services.maintenance,
            spool_stats=hooks.spool_stats,
            is_down=hooks.is_down,
            count_messages=hooks.count_messages,
            queue_max=hooks.queue_max,
        ),
        *make_stream_routes(
            settings,
            database,
            services.cycles,
            services.load,
            reachable,
            wait_s=services.operations.wait_s,
            on_deleted=hooks.on_group_deleted,
        ),
        built.health,
        built.metrics,
        access.tokens,
        access.sessions,
        access.audit,
    ]
    routes.append(OpenApiRoute(lambda: [spec for one in routes for spec in specs_of(type(one))]))
    return routes


def _make_admin(
    settings: Settings, database: Database, stores: Stores, services: Services, hooks: Hooks
) -> list[object]:
    groups = GroupStore(database)
    return [
        QueueRoutes(stores.admin, settings, on_changed=hooks.on_queue_changed),
        GroupRoutes(
            groups,
            settings,
            on_moved=lambda queue: services.pop.pushed_elsewhere([queue]),
            on_deleted=hooks.on_group_deleted,
        ),
        ResourceRoutes(groups, settings),
        PlaceRoutes(groups, shared=hooks.shared_state),
        RetentionRoutes(stores.removals),
        OperationRoutes(
            stores.operations,
            services.operations,
            spool_stats=hooks.spool_stats,
            pressure=lambda: services.load.pressure.value,
            on_retry=hooks.on_operations_retried,
        ),
        AsideRoutes(
            stores.journal,
            stores.operations,
            spool_stats=hooks.spool_stats,
            on_retry=hooks.on_aside_retried,
        ),
        PipelineRoutes(PipelineStore(database)),
        SystemRoutes(
            services.maintenance,
            settings,
            spool_stats=hooks.spool_stats,
            is_down=hooks.is_down,
        ),
    ]
