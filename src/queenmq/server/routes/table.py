"""Lists every class with routes, for tests and documents. `wiring/` builds the same."""

from __future__ import annotations

from queenmq.server.routes.access.audit import AuditRoutes
from queenmq.server.routes.access.sessions import SessionRoutes
from queenmq.server.routes.access.tokens import TokenRoutes
from queenmq.server.routes.admin.aside import AsideRoutes
from queenmq.server.routes.admin.dead_letters import DeadLetterRoutes
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
from queenmq.server.routes.inspection.history import HistoryRoutes
from queenmq.server.routes.inspection.messages import MessageRoutes
from queenmq.server.routes.inspection.metrics import MetricsRoutes
from queenmq.server.routes.inspection.openapi import OpenApiRoute
from queenmq.server.routes.inspection.pipeline import PipelineRoutes
from queenmq.server.routes.inspection.status import StatusRoutes
from queenmq.server.routes.inspection.traces import TraceRoutes
from queenmq.server.routes.inspection.why import WhyRoutes
from queenmq.server.routes.streams.cycles import CycleRoutes
from queenmq.server.routes.streams.queries import QueryRoutes
from queenmq.server.routing.spec import RouteSpec, specs_of

ROUTE_CLASSES: tuple[type, ...] = (
    PushRoute,
    PopRoute,
    AckRoute,
    TransactionRoutes,
    QueueRoutes,
    ResourceRoutes,
    PlaceRoutes,
    GroupRoutes,
    MessageRoutes,
    DeadLetterRoutes,
    TraceRoutes,
    StatusRoutes,
    WhyRoutes,
    HistoryRoutes,
    OperationRoutes,
    AsideRoutes,
    RetentionRoutes,
    PipelineRoutes,
    CycleRoutes,
    QueryRoutes,
    SystemRoutes,
    HealthRoutes,
    MetricsRoutes,
    TokenRoutes,
    SessionRoutes,
    AuditRoutes,
    OpenApiRoute,
)


def all_specs() -> list[RouteSpec]:
    """Return every route that the broker serves."""
    return [spec for kind in ROUTE_CLASSES for spec in specs_of(kind)]
