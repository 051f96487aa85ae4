"""Builds the routes by which operators look at queues and messages and put them right."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from queenmq.engine.diagnosis.facts import BrokerFacts, QueueFacts
from queenmq.engine.load.manager import LoadManager
from queenmq.engine.load.pressure import OperationType
from queenmq.engine.maintenance import Maintenance
from queenmq.engine.pop.service import PopService
from queenmq.engine.requests import PartitionKey
from queenmq.server.answers.status_answers import ProcessFacts
from queenmq.server.auth.reach import Reachable
from queenmq.server.routes.admin.dead_letters import DeadLetterRoutes
from queenmq.server.routes.inspection.history import HistoryRoutes
from queenmq.server.routes.inspection.messages import MessageRoutes
from queenmq.server.routes.inspection.status import StatusRoutes
from queenmq.server.routes.inspection.traces import TraceRoutes
from queenmq.server.routes.inspection.why import WhyRoutes
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database
from queenmq.storage.spool import SpoolStats
from queenmq.storage.stores.dead_letters import LetterStore
from queenmq.storage.stores.history import HistoryStore
from queenmq.storage.stores.inspection import InspectionStore
from queenmq.storage.stores.postgres_stats import PostgresStatsStore
from queenmq.storage.stores.status import StatusStore
from queenmq.storage.stores.traces import TraceStore


class Inspection(NamedTuple):
    """The routes."""

    messages: MessageRoutes
    dead_letters: DeadLetterRoutes
    traces: TraceRoutes
    status: StatusRoutes
    why: WhyRoutes
    history: HistoryRoutes


def make_inspection(
    settings: Settings,
    database: Database,
    traces: TraceStore,
    reachable: Reachable,
    *,
    pop: PopService,
    load: LoadManager,
    maintenance: Maintenance,
    spool_stats: Callable[[], SpoolStats],
    is_down: Callable[[], bool],
    count_messages: Callable[[], int],
    queue_max: Callable[[], int],
) -> Inspection:
    """All of them, on one database."""
    lock_timeout_ms = settings.push_wait_ms
    store = InspectionStore(database, lock_timeout_ms=lock_timeout_ms)
    letters = LetterStore(database, lock_timeout_ms=lock_timeout_ms)

    def tell(queue: str) -> None:
        pop.pushed_elsewhere([queue])

    def look_at_process() -> ProcessFacts:
        size, in_use, waiting = database.slot_use()
        return ProcessFacts(
            os.uname().nodename, os.getpid(), load.lag_ms, size, in_use, waiting, count_messages()
        )

    def look_at_broker(facts: QueueFacts) -> BrokerFacts:
        partition = facts.partition
        place = PartitionKey(facts.queue, partition) if partition is not None else facts.queue
        spool = spool_stats()
        filters = (facts.namespace, facts.task)
        return BrokerFacts(
            is_pop_paused=maintenance.is_pop,
            is_push_buffered=maintenance.is_push,
            spool_records=spool.pending_records,
            aside_records=spool.aside_records,
            waiting_pops=pop.count_waiting(place, filters, facts.consumer_group),
            is_refusing_pops=OperationType.POP in load.pressure.engaged,
        )

    return Inspection(
        messages=MessageRoutes(store, letters, settings, queue_max=queue_max, on_changed=tell),
        dead_letters=DeadLetterRoutes(letters, settings, queue_max=queue_max, on_changed=tell),
        traces=TraceRoutes(traces, settings, reachable),
        status=StatusRoutes(
            StatusStore(database),
            HistoryStore(database),
            settings,
            process=look_at_process,
            spool_stats=spool_stats,
            is_down=is_down,
        ),
        why=WhyRoutes(store, settings, broker=look_at_broker),
        history=HistoryRoutes(
            HistoryStore(database), StatusStore(database), PostgresStatsStore(database)
        ),
    )
