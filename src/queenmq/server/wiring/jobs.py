"""Builds the jobs that a broker repeats at intervals."""

from __future__ import annotations

import os

from queenmq.engine.maintenance import Maintenance
from queenmq.server.auth.wiring import Access
from queenmq.server.wiring.ground import Ground
from queenmq.server.wiring.metering import Metering
from queenmq.services.idle_partitions import IdlePartitions
from queenmq.services.janitor import KeySweep, LeaseSweep, Rule, Sweep
from queenmq.services.periodic import Job
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
) -> list[Job]:
    """Build the jobs of a broker, in the order of their start."""
    settings, admin = ground.settings, ground.admin
    removals = RetentionStore(ground.database)
    return [
        LeaseSweep(admin),
        # There may be thousands of keys a second.
        KeySweep(
            "key-sweep", [Rule(admin.sweep_push_keys, settings.push_key_keep_s)], interval_s=30.0
        ),
        Sweep("janitor", _list_rules(ground), interval_s=300.0),
        Retention(removals, ground.registry, interval_s=settings.retention_interval_s),
        IdlePartitions(removals, ground.registry, interval_s=settings.partition_removal_interval_s),
        Switches(maintenance),
        TokenWatch(access.gate),
        SpoolReport(ground.operations, spool, host=os.uname().nodename, directory=str(spool.home)),
        Sweep(
            "access-sweep",
            [
                Rule(access.token_store.sweep_tokens, _KEEP_TOKENS_S),
                Rule(access.audit_store.sweep_audit, settings.audit_retention_days * 86_400),
            ],
            interval_s=300.0,
        ),
        metering.history,
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
