"""Builds the routes of streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from queenmq.engine.load.manager import LoadManager
from queenmq.engine.news import News
from queenmq.engine.streams.service import CycleService
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


def make_stream_routes(
    settings: Settings,
    database: Database,
    cycles: CycleService,
    load: LoadManager,
    reachable: Reachable,
    traffic: Traffic,
    *,
    wait_s: Callable[[int], int],
    news: News,
) -> StreamRoutes:
    """Build all routes of streams, on one database."""
    store = StreamStore(database)
    return StreamRoutes(
        CycleRoutes(cycles, load, settings, reachable, traffic, wait_s=wait_s),
        QueryRoutes(store, GroupStore(database), settings, news=news),
    )
