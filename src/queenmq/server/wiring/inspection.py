"""Builds the routes by which operators look at queues and messages and put them right."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from queenmq.engine.diagnosis.facts import BrokerFacts, QueueFacts
from queenmq.engine.diagnosis.overall import CapabilityFacts, OverallFacts
from queenmq.engine.load.manager import LoadManager
from queenmq.engine.load.pressure import OperationType
from queenmq.engine.maintenance import Maintenance
from queenmq.engine.news import News
from queenmq.engine.pop.service import PopService
from queenmq.engine.queued_pushes.metrics import OperationMetrics
from queenmq.engine.requests import PartitionKey
from queenmq.server.answers.opening import Opener
from queenmq.server.answers.status_answers import ProcessFacts
from queenmq.server.auth.reach import Reachable
from queenmq.server.requests.letter_retries import LetterRetries
from queenmq.server.routes.admin.dead_letters import DeadLetterRoutes
from queenmq.server.routes.inspection.health import HealthRoutes
from queenmq.server.routes.inspection.history import HistoryRoutes
from queenmq.server.routes.inspection.messages import MessageRoutes
from queenmq.server.routes.inspection.status import StatusRoutes
from queenmq.server.routes.inspection.traces import TraceRoutes
from queenmq.server.routes.inspection.troubles import TroubleRoutes
from queenmq.server.routes.inspection.why import WhyRoutes
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database
from queenmq.storage.spool import SpoolStats
from queenmq.storage.stores.dead_letters import DeadLetterStore
from queenmq.storage.stores.inspection import InspectionStore
from queenmq.storage.stores.observation.history import HistoryStore
from queenmq.storage.stores.observation.postgres_stats import PostgresStatsStore
from queenmq.storage.stores.observation.status import StatusStore
from queenmq.storage.stores.observation.troubles import TroubleStore
from queenmq.storage.stores.traces import TraceStore


class Inspection(NamedTuple):
    """The routes."""

    messages: MessageRoutes
    dead_letters: DeadLetterRoutes
    traces: TraceRoutes
    status: StatusRoutes
    why: WhyRoutes
    troubles: TroubleRoutes
    history: HistoryRoutes


def make_inspection(
    settings: Settings,
    database: Database,
    traces: TraceStore,
    reachable: Reachable,
    *,
    news: News,
    pop: PopService,
    load: LoadManager,
    maintenance: Maintenance,
    operations: OperationMetrics,
    health: HealthRoutes,
    spool_stats: Callable[[], SpoolStats],
    is_down: Callable[[], bool],
    count_messages: Callable[[], int],
    queue_max: Callable[[], int],
    opener: Opener,
) -> Inspection:
    """Return all of them, on one database."""
    lock_timeout_ms = settings.push_wait_ms
    store = InspectionStore(database, lock_timeout_ms=lock_timeout_ms)
    dead_letters = DeadLetterStore(database, lock_timeout_ms=lock_timeout_ms)
    retries = LetterRetries(dead_letters, opener.vault)

    def read_process_facts() -> ProcessFacts:
        size, in_use, waiting = database.slot_use()
        return ProcessFacts(
            os.uname().nodename, os.getpid(), load.lag_ms, size, in_use, waiting, count_messages()
        )

    def read_broker_facts(facts: QueueFacts) -> BrokerFacts:
        found = _read_broker_facts(facts, pop, load, maintenance, spool_stats())
        return found._replace(unreadable=opener.recent_failure(facts.queue))

    return Inspection(
        messages=MessageRoutes(store, retries, settings, opener, queue_max=queue_max, news=news),
        dead_letters=DeadLetterRoutes(
            dead_letters, retries, settings, opener, queue_max=queue_max, news=news
        ),
        traces=TraceRoutes(traces, settings, reachable, opener),
        status=StatusRoutes(
            StatusStore(database),
            HistoryStore(database),
            settings,
            process=read_process_facts,
            spool_stats=spool_stats,
            is_down=is_down,
        ),
        why=WhyRoutes(store, settings, broker=read_broker_facts),
        troubles=TroubleRoutes(
            TroubleStore(database),
            store,
            broker=lambda: _read_broker_state(health, maintenance, operations, spool_stats()),
            queue_broker=read_broker_facts,
        ),
        history=HistoryRoutes(
            HistoryStore(database), StatusStore(database), PostgresStatsStore(database)
        ),
    )


def _read_broker_facts(
    facts: QueueFacts,
    pop: PopService,
    load: LoadManager,
    maintenance: Maintenance,
    spool: SpoolStats,
) -> BrokerFacts:
    """Return what the broker knows of one queue and group."""
    partition = facts.partition
    place = PartitionKey(facts.queue, partition) if partition is not None else facts.queue
    filters = (facts.namespace, facts.task)
    return BrokerFacts(
        is_pop_paused=maintenance.is_pop,
        is_push_buffered=maintenance.is_push,
        spool_records=spool.pending_records,
        aside_records=spool.aside_records,
        waiting_pops=pop.count_waiting(place, filters, facts.consumer_group),
        is_refusing_pops=OperationType.POP in load.pressure.engaged,
        is_group_paused=facts.consumer_group in maintenance.paused_groups,
    )


async def _read_broker_state(
    health: HealthRoutes, maintenance: Maintenance, operations: OperationMetrics, spool: SpoolStats
) -> OverallFacts:
    """Return what the broker knows of how everything is."""
    _, found = await health.check_database()
    return OverallFacts(
        capabilities=[
            CapabilityFacts(name, one.status, one.reason, one.is_well)
            for name, one in found.items()
        ],
        problems=health.problems(),
        is_push_paused=maintenance.is_push,
        is_pop_paused=maintenance.is_pop,
        spooled=spool.pending_records,
        operations_waiting=operations.depth,
        operations_oldest_s=operations.oldest_s,
    )
