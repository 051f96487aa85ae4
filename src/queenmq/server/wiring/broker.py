"""The composition root: the one place where storage, engine and routes meet."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import UUID

from queenmq import wire
from queenmq.crypto.keys import read_keys
from queenmq.crypto.vault import Vault
from queenmq.engine.ack.leases import LeaseService
from queenmq.engine.ack.service import AckService
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.load.metrics import register_load
from queenmq.engine.load.pressure import OperationType
from queenmq.engine.maintenance import Maintenance
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.pop.service import PopService
from queenmq.engine.pop.subscriptions import Subscriptions
from queenmq.engine.push.sealing import Sealing
from queenmq.engine.push.service import PushService
from queenmq.engine.push.spooling import PushSpool
from queenmq.engine.queued_pushes.accepted_pushes import AcceptedPushes
from queenmq.engine.queued_pushes.metrics import OperationMetrics
from queenmq.engine.queued_pushes.processor import OperationProcessor
from queenmq.engine.requests import PartitionKey, PartitionRef, PushItems
from queenmq.engine.transactions import TransactionService
from queenmq.metrics.registry import Registry
from queenmq.server.answers.opening import Opener
from queenmq.server.answers.problems import find_problems
from queenmq.server.app import App
from queenmq.server.auth.wiring import make_access
from queenmq.server.metering.process import Sources
from queenmq.server.metering.refusals import Refusals
from queenmq.server.metering.requests import RequestMeter
from queenmq.server.metering.traffic import Traffic
from queenmq.server.orders import BrokerOrders
from queenmq.server.routes.admin.settings import SettingRoutes
from queenmq.server.routes.hot.pop import PopRoute
from queenmq.server.routes.hot.push import PushRoute
from queenmq.server.routes.inspection.metrics import MetricsRoutes
from queenmq.server.tracing.otlp import Spans
from queenmq.server.tracing.traced_traffic import TracedTraffic
from queenmq.server.wiring.health import make_health
from queenmq.server.wiring.joining import Joining
from queenmq.server.wiring.limits import LEAST_CALLS, pop_limits, push_limits
from queenmq.server.wiring.load import make_load_manager
from queenmq.server.wiring.metering import Metering, make_registry
from queenmq.server.wiring.paces import Paces
from queenmq.server.wiring.routes import Built, Hooks, Services, Stores, make_routes
from queenmq.server.wiring.streams import make_cycles
from queenmq.services.idle_partitions import IdlePartitions
from queenmq.services.janitor import AccessSweep, Janitor, KeySweep, LeaseSweep
from queenmq.services.retention import Retention
from queenmq.services.runner import Runner
from queenmq.services.switches import Switches
from queenmq.services.token_watch import TokenWatch
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database
from queenmq.storage.connection.wake_listener import WakeListener
from queenmq.storage.spool import SpoolStats
from queenmq.storage.spool.pair import SpoolPair
from queenmq.storage.spool.push_journal import SpoolJournal
from queenmq.storage.stores.admin import AdminStore
from queenmq.storage.stores.messages import PostgresMessageStore
from queenmq.storage.stores.operations import PostgresOperationStore
from queenmq.storage.stores.retention import RetentionStore
from queenmq.storage.stores.traces import TraceStore


class Broker:
    """Everything one worker process runs, from the pool of connections to the ASGI application."""

    def __init__(self, orders: BrokerOrders) -> None:
        settings = orders.settings
        self._settings = settings
        self._url = orders.url
        self._setting_routes = SettingRoutes(settings, orders.origins)
        self._database = Database(orders.url, settings)
        store = PostgresMessageStore(self._database)
        admin = AdminStore(self._database)
        self._catalogue = Catalogue(
            store, lock_timeout_ms=settings.push_lock_timeout_ms, wait_ms=settings.push_wait_ms
        )
        self._vault = Vault(read_keys(settings.encryption_key, settings.encryption_key_file))
        self._sealing = Sealing(self._vault)
        self._subscriptions = Subscriptions(store)
        registry = make_registry(orders)
        self._opener = Opener(self._vault, registry)
        self._paces = Paces(settings, self._database, registry)
        self._make_pop(store, registry)
        self._make_push(store, registry)
        self._make_acks(store, registry)
        self._load = make_load_manager(
            settings,
            self._database,
            push=self._push,
            ack=self._ack,
            pop=self._pop,
            operations=self._operations,
        )
        register_load(registry, self._load)
        self._metering = self._make_metering(orders, registry)
        self._wake = WakeListener(
            store,
            self._database.connector.connect,
            interval_ms=settings.wake_interval_ms,
            is_listening=settings.wake_listen,
            on_wake=self._pop.pushed_elsewhere,
            on_listening=self._pop.listening,
            on_deleted=self._group_deleted,
        )
        self._joining = Joining(
            orders,
            self._database,
            self._spool_files,
            read_state=self._operation_store.read_state,
            make_whole=self._make_whole,
        )
        self._health = make_health(
            admin,
            self._database,
            self._spool,
            self._maintenance,
            spool_stats=self._spool_stats,
            is_down=self._is_down,
            problems=self._problems,
        )
        self._database.watch.on_change = self._database_changed
        self._access = make_access(settings, self._database)
        self._make_app(admin, registry)

    @property
    def meter(self) -> RequestMeter:
        """Return what counts answers and connections."""
        return self._metering.meter

    def _make_traffic(self, registry: Registry) -> Traffic:
        """Make what counts messages, with spans if a collector is named."""
        settings = self._settings
        self._spans: Spans | None = None
        if not settings.otlp_endpoint:
            return Traffic(registry)
        self._spans = Spans(settings.otlp_endpoint, ratio=settings.otlp_sample_ratio)
        return TracedTraffic(registry, self._spans)

    def _make_metering(self, orders: BrokerOrders, registry: Registry) -> Metering:
        sources = Sources(
            pool_use=self._database.pool_use,
            spool_stats=self._spool_stats,
            faults=self._database.faults,
            is_down=self._is_down,
            is_maintenance=lambda: self._maintenance.is_push,
        )
        traffic = self._make_traffic(registry)
        registry.follow(traffic.stored.of("spool"), lambda: self._accepted.messages)
        registry.follow(traffic.stored.of("operation"), lambda: self._operations.messages)
        registry.follow(traffic.stored.of("stream"), lambda: self._cycles.messages)
        return Metering(
            orders,
            registry,
            self._database,
            self._load,
            traffic,
            sources,
            parked=self._pop.count_by_queue,
        )

    def _make_pop(self, store: PostgresMessageStore, registry: Registry) -> None:
        """Make the pop path and the leases that it hands back."""
        settings = self._settings
        limits = pop_limits(settings)
        pace = self._paces.pop
        metrics = PopMetrics(registry, slots=pace.most, read_slots=lambda: pace.limit)
        self._leases = LeaseService(
            store,
            lock_timeout_ms=settings.push_lock_timeout_ms,
            wait_ms=settings.push_wait_ms,
            registry=registry,
        )
        self._pop = PopService(
            store,
            self._leases,
            self._catalogue,
            metrics,
            limits,
            on_returned=lambda queue: self._wake.notify(queue),
            pace=pace,
        )

    def _make_acks(self, store: PostgresMessageStore, registry: Registry) -> None:
        """Make the paths of acks, transactions and stream cycles."""
        settings = self._settings
        self._ack = AckService(
            store,
            calls_max=settings.ack_calls_max or LEAST_CALLS,
            rows_max=settings.ack_rows_max,
            waiting_max=settings.load_ack_queue_max,
            lock_timeout_ms=settings.push_lock_timeout_ms,
            wait_ms=settings.push_wait_ms,
            on_freed=self._freed,
            pace=self._paces.ack,
            registry=registry,
        )
        self._transactions = TransactionService(
            store,
            self._catalogue,
            lock_timeout_ms=settings.push_lock_timeout_ms,
            wait_ms=settings.push_wait_ms,
            queue_max=self._queue_max,
            on_pushed=self._pushed,
            on_queued=self._processor.notify_queued,
            on_freed=self._freed,
            check_order=self._spool.check_order,
            sealing=self._sealing,
            registry=registry,
        )
        self._cycles = make_cycles(
            settings,
            self._database,
            store,
            self._catalogue,
            queue_max=self._queue_max,
            on_pushed=self._pushed,
            on_queued=self._processor.notify_queued,
            on_freed=self._freed,
            check_order=self._spool.check_order,
            sealing=self._sealing,
            registry=registry,
        )

    def _make_push(self, store: PostgresMessageStore, registry: Registry) -> None:
        """Make the push path with its fallbacks: operation queue, spool, maintenance."""
        self._operation_store = PostgresOperationStore(self._database)
        self._operations = OperationMetrics(registry)
        self._processor = OperationProcessor(
            self._operation_store,
            self._operations,
            worker=f"{os.uname().nodename}:{os.getpid()}",
            lock_timeout_ms=self._settings.push_lock_timeout_ms,
            is_engaged=lambda: OperationType.PUSH in self._load.pressure.engaged,
            on_stored=self._operations_stored,
        )
        self._spool = PushSpool(
            is_down=self._is_down,
            store=self._store_accepted,
            seal=lambda items: self._sealing.fit_for_disk(items, self._catalogue.get),
            registry=registry,
        )
        self._spool_files = SpoolPair(
            _spool_home(self._settings), bytes_max=self._settings.spool_max_bytes
        )
        self._journal = SpoolJournal(self._spool_files)
        self._maintenance = Maintenance(
            read=self._operation_store.read_state,
            write=self._operation_store.write_state,
            remove=self._operation_store.remove_state,
            on_push=self._buffer,
            on_pop=self._pop.pause,
            on_group=self._pop.pause_group,
        )
        self._push = PushService(
            store,
            self._catalogue,
            self._spool,
            push_limits(self._settings),
            queue_max=self._queue_max,
            has_operations=lambda: self._operations.depth > 0,
            on_pushed=self._pushed,
            on_queued=self._processor.notify_queued,
            sealing=self._sealing,
            pace=self._paces.push,
            registry=registry,
        )
        self._accepted = AcceptedPushes(self._catalogue, self._push.send)

    def _make_app(
        self,
        admin: AdminStore,
        registry: Registry,
    ) -> None:
        settings = self._settings
        traces = TraceStore(self._database)
        removals = RetentionStore(self._database)
        self._runner = self._make_runner(admin, traces, removals, registry)
        metering, traffic = self._metering, self._metering.traffic
        push = PushRoute(
            self._push, self._load, settings, wait_s=self._operations.wait_s, traffic=traffic
        )
        pop = PopRoute(
            self._pop,
            self._subscriptions,
            self._load,
            self._maintenance,
            settings,
            traffic,
            self._opener,
        )
        metrics = MetricsRoutes(
            metering.scrape,
            metering.process,
            metering.meter,
            count_messages=metering.count_messages,
        )
        routes = make_routes(
            settings,
            self._database,
            self._access,
            stores=Stores(
                admin=admin,
                traces=traces,
                removals=removals,
                operations=self._operation_store,
                journal=self._journal,
            ),
            services=self._route_services(),
            built=Built(
                push=push,
                pop=pop,
                health=self._health,
                metrics=metrics,
                settings=self._setting_routes,
            ),
            hooks=self._route_hooks(),
        )
        self.app = App(
            routes,
            pop=pop,
            meter=metering.meter,
            refusals=Refusals(registry),
            access=self._access,
        )

    def _route_services(self) -> Services:
        return Services(
            pop=self._pop,
            ack=self._ack,
            leases=self._leases,
            transactions=self._transactions,
            cycles=self._cycles,
            operations=self._operations,
            maintenance=self._maintenance,
            load=self._load,
            traffic=self._metering.traffic,
            opener=self._opener,
        )

    def _route_hooks(self) -> Hooks:
        return Hooks(
            source_url=self._url,
            spool_stats=self._spool_stats,
            is_down=self._is_down,
            queue_max=self._queue_max,
            count_messages=self._metering.count_messages,
            shared_state=self._shared_state,
            on_queue_changed=self._queue_changed,
            on_group_deleted=self._group_deleted,
            on_operations_retried=lambda: self._processor.notify_queued(0),
            on_aside_retried=self._retried,
        )

    def _shared_state(self) -> wire.BrokerMemory:
        """Return what this broker remembers of what all brokers share."""
        return wire.BrokerMemory(
            enabled=True,
            partitions_remembered=len(self._catalogue),
            maintenance_mode=self._maintenance.is_push,
            pop_maintenance_mode=self._maintenance.is_pop,
            is_listening=self._settings.wake_listen,
            database=self.database_id,
        )

    def _make_runner(
        self,
        admin: AdminStore,
        traces: TraceStore,
        removals: RetentionStore,
        registry: Registry,
    ) -> Runner:
        settings = self._settings
        janitor = Janitor(
            self._operation_store,
            admin,
            traces,
            admin,
            admin,
            trace_keep_s=settings.trace_retention_s,
            history_keep_s=settings.ack_history_hours * 3_600,
        )
        retention = Retention(removals, registry, interval_s=settings.retention_interval_s)
        idle_partitions = IdlePartitions(
            removals, registry, interval_s=settings.partition_removal_interval_s
        )
        access = self._access
        access_sweep = AccessSweep(
            access.token_store,
            access.audit_store,
            audit_keep_s=settings.audit_retention_days * 86_400,
        )
        return Runner(
            [
                LeaseSweep(admin),
                KeySweep(admin, keep_s=settings.push_key_keep_s),
                janitor,
                retention,
                idle_partitions,
                Switches(self._maintenance),
                TokenWatch(access.gate),
                access_sweep,
                self._metering.history,
            ]
        )

    @property
    def database_id(self) -> str | None:
        """Return which database this is, or None until that is known."""
        return self._joining.database_id

    async def start(self) -> None:
        """Serve. Without the database as well as that goes, and wholly as soon as it is there."""
        await self._joining.start()
        self._spool.start(self._journal)
        self._load.start()
        self._metering.start()

    async def _make_whole(self) -> None:
        """Begin the work that needs the database."""
        await self._maintenance.refresh()
        self._processor.start()
        self._wake.start()
        self._runner.start()

    async def begin_stop(self) -> None:
        """Answer parked polls, so that the server can close its connections."""
        self._health.is_stopping = True
        self._maintenance.stop()
        await self._pop.drain()

    async def stop(self) -> None:
        """Finish what is in flight, within a bound, and disconnect."""
        try:
            async with asyncio.timeout(self._settings.shutdown_timeout_ms / 1000):
                await self._push.drain()
                await self._ack.drain()
                await self._transactions.drain()
                await self._cycles.drain()
                await self._leases.drain()
        except TimeoutError:
            pass
        await self._paces.stop()
        await self._metering.stop(is_joined=not self._is_down())
        await self._joining.stop()
        await self._spool.stop()
        await self._processor.stop()
        await self._runner.stop()
        await self._wake.stop()
        self._load.stop()
        await self._database.close()
        await self._spool_files.close()
        if self._spans is not None:
            await asyncio.to_thread(self._spans.close)

    def _pushed(self, refs: Iterable[PartitionRef]) -> None:
        refs = list(refs)
        self._pop.pushed(refs)
        for ref in refs:
            self._wake.notify(ref.key.queue)

    async def _operations_stored(self, keys: Sequence[PartitionKey]) -> None:
        self._pushed((await self._catalogue.find(keys)).values())

    async def _store_accepted(
        self, requests: Sequence[PushItems]
    ) -> Sequence[BaseException | None]:
        return await self._accepted.store(requests)

    def _queue_max(self) -> int:
        """Return how many operations may wait in a partition: none more when there are too many in
        all.
        """
        settings = self._settings
        is_full = self._operations.depth >= settings.load_push_queue_max
        return 0 if is_full else settings.load_partition_queue_max

    def _is_down(self) -> bool:
        return self._database.watch.is_down or not self._joining.is_joined

    def _database_changed(self, is_down: bool) -> None:
        if is_down:
            self._database.cut_off()
            self._push.divert_to_spool()
        else:
            self._joining.wake()
            self._spool.wake()

    def _buffer(self, is_on: bool) -> None:
        self._spool.is_buffering = is_on
        self._spool.wake()

    def _spool_stats(self) -> SpoolStats:
        return self._spool_files.stats()

    def _retried(self) -> None:
        self._spool.wake()
        self._processor.notify_queued(0)

    def _problems(self) -> list[str]:
        return find_problems(
            self._database.faults.current,
            self._spool_stats(),
            undecided=self._operations.undecided,
        )

    def _freed(self, partition_id: UUID, key: PartitionKey, consumer_group: str) -> None:
        self._pop.freed(partition_id, key, consumer_group)
        self._wake.notify(key.queue)

    def _queue_changed(self, queue: str) -> None:
        self._catalogue.forget_queue(queue)
        self._subscriptions.forget()

    def _group_deleted(self, queue: str, consumer_group: str) -> None:
        self._subscriptions.forget()
        self._pop.dismiss(queue, consumer_group)


def _spool_home(settings: Settings) -> Path:
    """Return a directory per database, because pushes kept for one must not reach another."""
    return Path(settings.spool_dir) if settings.spool_dir else Path(settings.data_dir) / "spool"
