"""Builds the jobs that a broker repeats at intervals."""

from __future__ import annotations

import functools
import os

from queenmq.engine.load.manager import LoadManager
from queenmq.engine.load.pressure import LoadDecision, OperationType
from queenmq.engine.maintenance import Maintenance
from queenmq.server.auth.wiring import Access
from queenmq.server.wiring.ground import Ground
from queenmq.server.wiring.metering import Metering
from queenmq.services.idle_partitions import IdlePartitions
from queenmq.services.janitor import KeySweep, LeaseSweep, Rule, Sweep
from queenmq.services.periodic import Periodic
from queenmq.services.retention import Retention
from queenmq.services.spool_report import SpoolReport
from queenmq.services.switches import Switches
from queenmq.services.token_watch import TokenWatch
from queenmq.storage.spool.pair import SpoolPair
from queenmq.storage.stores.retention import RetentionStore
from queenmq.storage.stores.traces import TraceStore

#: Completed operations can be asked for, and committed transactions are recognised, this long.
_KEEP_ENDED_S = 3_600
#: A Spark batch that was not published within this time never will be.
_KEEP_STAGED_S = 86_400
#: Tokens that ended are listed for so long.
_KEEP_TOKENS_S = 30 * 86_400


def make_jobs(
    ground: Ground,
    metering: Metering,
    maintenance: Maintenance,
    access: Access,
    *,
    spool: SpoolPair,
    load: LoadManager,
) -> list[Periodic]:
    """Build the jobs of a broker, in the order of their start.

    What only removes old rows can wait under load.
    """
    settings, admin = ground.settings, ground.admin
    removals = RetentionStore(ground.database)
    deferrable = functools.partial(Periodic, may_run=lambda: _may_run(load))
    spool_report = SpoolReport(
        ground.operations, spool, host=os.uname().nodename, directory=str(spool.home)
    )
    return [
        Periodic(LeaseSweep(admin)),
        # There may be thousands of keys a second.
        deferrable(
            KeySweep(
                "key-sweep",
                [Rule(admin.sweep_push_keys, settings.push_key_keep_s)],
                interval_s=30.0,
            )
        ),
        deferrable(Sweep("janitor", _list_rules(ground), interval_s=300.0)),
        deferrable(Retention(removals, ground.registry, interval_s=settings.retention_interval_s)),
        deferrable(
            IdlePartitions(
                removals, ground.registry, interval_s=settings.partition_removal_interval_s
            )
        ),
        Periodic(Switches(maintenance)),
        Periodic(TokenWatch(access.gate)),
        Periodic(spool_report),
        deferrable(Sweep("access-sweep", _list_access_rules(ground, access), interval_s=300.0)),
        Periodic(metering.history),
    ]


def _may_run(load: LoadManager) -> bool:
    return load.decide(OperationType.BACKGROUND) is LoadDecision.EXECUTE


def _list_access_rules(ground: Ground, access: Access) -> list[Rule]:
    audit_s = ground.settings.audit_retention_days * 86_400
    return [
        Rule(access.token_store.sweep_tokens, _KEEP_TOKENS_S),
        Rule(access.audit_store.sweep_audit, audit_s),
    ]


def _list_rules(ground: Ground) -> list[Rule]:
    settings, admin = ground.settings, ground.admin
    return [
        Rule(ground.operations.sweep, _KEEP_ENDED_S),
        Rule(admin.sweep_staged, _KEEP_STAGED_S),
        Rule(admin.sweep_transactions, _KEEP_ENDED_S),
        Rule(TraceStore(ground.database).sweep_traces, settings.trace_retention_s),
        Rule(admin.sweep_ack_history, settings.ack_history_hours * 3_600),
    ]
