"""Builds what every path of a broker stands on: database, stores, catalogue, keys, metrics."""

from __future__ import annotations

import os
from dataclasses import dataclass

from queenmq.crypto.keys import read_keys
from queenmq.crypto.vault import Vault
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.news import News
from queenmq.engine.push.sealing import Sealing
from queenmq.metrics.cells import Memory
from queenmq.metrics.registry import Registry
from queenmq.server.answers.opening import Opener
from queenmq.server.orders import BrokerOrders
from queenmq.server.wiring.joining import Membership
from queenmq.server.wiring.paces import Paces
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database
from queenmq.storage.stores.admin import AdminStore
from queenmq.storage.stores.messages import PostgresMessageStore
from queenmq.storage.stores.operations import PostgresOperationStore


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The common ground of one worker process."""

    orders: BrokerOrders
    settings: Settings
    news: News
    registry: Registry
    database: Database
    membership: Membership
    messages: PostgresMessageStore
    operations: PostgresOperationStore
    admin: AdminStore
    catalogue: Catalogue
    sealing: Sealing
    opener: Opener
    paces: Paces


def make_ground(orders: BrokerOrders) -> Ground:
    """Build it. Nothing connects yet."""
    settings = orders.settings
    news = News()
    # In the memory that this worker shares with the others.
    registry = Registry(Memory(orders.metrics_fd), orders.place, is_alive=_is_alive)
    database = Database(orders.url, settings, news)
    messages = PostgresMessageStore(database)
    vault = Vault(read_keys(settings.encryption_key, settings.encryption_key_file))
    return Ground(
        orders=orders,
        settings=settings,
        news=news,
        registry=registry,
        database=database,
        membership=Membership(database.watch, orders.database_id),
        messages=messages,
        operations=PostgresOperationStore(database),
        admin=AdminStore(database),
        catalogue=Catalogue(
            messages, lock_timeout_ms=settings.push_lock_timeout_ms, wait_ms=settings.push_wait_ms
        ),
        sealing=Sealing(vault),
        opener=Opener(vault, registry),
        paces=Paces(settings, database, registry),
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
