"""The composition root: the one place where storage, engine and routes meet."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from prometheus_client import CollectorRegistry

from queenmq.engine.ack_service import AckService
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.decision import Room
from queenmq.engine.operation import PartitionKey, PartitionRef
from queenmq.engine.pop_metrics import PopMetrics
from queenmq.engine.pop_service import PopLimits, PopService
from queenmq.engine.push_service import PushService
from queenmq.engine.subscriptions import Subscriptions
from queenmq.engine.transaction_service import TransactionService
from queenmq.server.app import App
from queenmq.server.metrics import BrokerMetrics
from queenmq.server.routes.ack import AckRoute
from queenmq.server.routes.health import HealthRoutes
from queenmq.server.routes.metrics import MetricsRoutes
from queenmq.server.routes.pop import PopRoute
from queenmq.server.routes.push import PushRoute
from queenmq.server.routes.queues import QueueRoutes
from queenmq.server.routes.transactions import TransactionRoutes
from queenmq.services.janitor import Janitor
from queenmq.services.runner import Runner
from queenmq.settings import Settings
from queenmq.storage.admin_store import AdminStore
from queenmq.storage.database import Database
from queenmq.storage.message_store import PostgresMessageStore
from queenmq.storage.wake_listener import WakeListener


class Broker:
    """Everything one worker process runs, from the pool of connections to the ASGI application."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._settings = settings
        self._database = Database(url, settings)
        store = PostgresMessageStore(self._database)
        admin = AdminStore(self._database)
        self._catalogue = Catalogue(
            store, lock_timeout_ms=settings.push_lock_timeout_ms, wait_ms=settings.push_wait_ms
        )
        self._subscriptions = Subscriptions(store)
        registry = CollectorRegistry()
        limits = _pop_limits(settings)
        metrics = PopMetrics(registry, slots=limits.slots)
        self._pop = PopService(store, self._catalogue, metrics, limits)
        self._push = PushService(
            store, self._catalogue, on_pushed=self._pushed, **_push_limits(settings)
        )
        self._ack = AckService(
            store,
            calls_max=settings.ack_calls_max,
            rows_max=settings.ack_rows_max,
            waiting_max=settings.ack_waiting_max,
            lock_timeout_ms=settings.push_lock_timeout_ms,
            wait_ms=settings.push_wait_ms,
            on_freed=self._freed,
        )
        transactions = TransactionService(
            store,
            self._catalogue,
            lock_timeout_ms=settings.push_wait_ms,
            on_pushed=self._pushed,
            on_freed=self._freed,
        )
        self._wake = WakeListener(
            store,
            url,
            interval_ms=settings.wake_interval_ms,
            is_listening=settings.wake_listen,
            on_wake=self._pop.pushed_elsewhere,
        )
        self._runner = Runner([Janitor(admin)])
        self._health = HealthRoutes(admin)
        push = PushRoute(self._push, settings)
        self.app = App(
            push=push,
            pop=PopRoute(self._pop, self._subscriptions, settings),
            ack=AckRoute(self._ack, settings),
            transactions=TransactionRoutes(transactions, store, settings),
            queues=QueueRoutes(admin, settings, on_changed=self._queue_changed),
            health=self._health,
            metrics=MetricsRoutes(
                registry,
                BrokerMetrics(registry, pool_use=self._database.pool_use),
                count_messages=lambda: push.messages,
            ),
        )

    async def start(self) -> None:
        """Connect and begin background work."""
        await self._database.open()
        self._wake.start()
        self._runner.start()

    async def begin_stop(self) -> None:
        """Answer parked polls, so that the server can close its connections."""
        self._health.is_stopping = True
        await self._pop.drain()

    async def stop(self) -> None:
        """Finish what is in flight, within a bound, and disconnect."""
        try:
            async with asyncio.timeout(self._settings.shutdown_timeout_ms / 1000):
                await self._push.drain()
                await self._ack.drain()
        except TimeoutError:
            pass
        await self._runner.stop()
        await self._wake.stop()
        await self._database.close()

    def _pushed(self, refs: Iterable[PartitionRef]) -> None:
        refs = list(refs)
        self._pop.pushed(refs)
        for ref in refs:
            self._wake.tell(ref.key.queue)

    def _freed(self, partition_id: UUID, key: PartitionKey, consumer_group: str) -> None:
        self._pop.freed(partition_id, key, consumer_group)
        self._wake.tell(key.queue)

    def _queue_changed(self, queue: str) -> None:
        self._catalogue.forget_queue(queue)
        self._subscriptions.forget()


def _push_limits(settings: Settings) -> dict[str, Any]:
    return {
        "calls_max": settings.push_calls_max,
        "rows_max": settings.push_rows_max,
        "waiting_max": settings.push_waiting_max,
        "lock_timeout_ms": settings.push_lock_timeout_ms,
        "wait_ms": settings.push_wait_ms,
    }


def pop_slots(settings: Settings) -> int:
    """How many pop calls may run at once: as set, or as the cores allow."""
    return settings.pop_slots or min(max(os.cpu_count() or 2, 2), 8)


def _pop_limits(settings: Settings) -> PopLimits:
    return PopLimits(
        slots=pop_slots(settings),
        room=Room(
            requests=settings.pop_candidates_max if settings.enable_pop_batching else 1,
            candidates=settings.pop_candidates_max,
            messages=settings.pop_messages_max,
        ),
        apart_count=settings.pop_apart_count,
        waiting_max=settings.pop_waiting_max,
        preflight_pools_max=settings.smart_poll_max_intentions,
        preflight_budget_ms=settings.smart_poll_preflight_timeout_ms,
        min_interval_ms=settings.smart_poll_min_interval_ms,
        max_interval_ms=settings.smart_poll_max_interval_ms,
        is_checking=settings.enable_pending_check,
    )
