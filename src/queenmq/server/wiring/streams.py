"""Builds the routes of streams, and the service behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from queenmq.engine.ack.service import Freed
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.load.manager import LoadManager
from queenmq.engine.ports import MessageStore
from queenmq.engine.push.sealing import Sealing
from queenmq.engine.requests import PartitionRef
from queenmq.engine.streams.service import CycleService
from queenmq.metrics.registry import Registry
from queenmq.server.auth.reach import Reachable
from queenmq.server.metering.traffic import Traffic
from queenmq.server.routes.streams.cycles import CycleRoutes
from queenmq.server.routes.streams.queries import QueryRoutes
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database
from queenmq.storage.stores.groups import GroupStore
from queenmq.storage.stores.streams import StreamStore


class StreamRoutes(NamedTuple):
    """The routes."""

    cycles: CycleRoutes
    queries: QueryRoutes


def make_cycles(
    settings: Settings,
    database: Database,
    messages: MessageStore,
    catalogue: Catalogue,
    *,
    queue_max: Callable[[], int],
    on_pushed: Callable[[Iterable[PartitionRef]], None],
    on_queued: Callable[[int], None],
    on_freed: Freed,
    check_order: Callable[[str], None],
    sealing: Sealing,
    registry: Registry,
) -> CycleService:
    """Build the service that commits cycles."""
    return CycleService(
        StreamStore(database),
        messages,
        catalogue,
        rows_max=settings.push_rows_max,
        state_bytes_max=settings.stream_state_bytes_max,
        lock_timeout_ms=settings.push_lock_timeout_ms,
        wait_ms=settings.push_wait_ms,
        queue_max=queue_max,
        on_pushed=on_pushed,
        on_queued=on_queued,
        on_freed=on_freed,
        check_order=check_order,
        sealing=sealing,
        registry=registry,
    )


def make_stream_routes(
    settings: Settings,
    database: Database,
    cycles: CycleService,
    load: LoadManager,
    reachable: Reachable,
    traffic: Traffic,
    *,
    wait_s: Callable[[int], int],
    on_deleted: Callable[[str, str], None],
) -> StreamRoutes:
    """Build all routes of streams, on one database."""
    store = StreamStore(database)
    return StreamRoutes(
        CycleRoutes(cycles, load, settings, reachable, traffic, wait_s=wait_s),
        QueryRoutes(store, GroupStore(database), settings, on_deleted=on_deleted),
    )
