"""Builds the push path with its fallbacks: the spool and the operation queue.

Each part knows only those above it: the push path keeps what it cannot store in the spool, pushes
that were accepted before go the push path, and the drain takes them out of the spool.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from queenmq.engine.load.manager import LoadManager
from queenmq.engine.load.pressure import OperationType
from queenmq.engine.push.service import PushService
from queenmq.engine.push.spooling import PushSpool
from queenmq.engine.queued_pushes.accepted_pushes import AcceptedPushes
from queenmq.engine.queued_pushes.metrics import OperationMetrics
from queenmq.engine.queued_pushes.processor import OperationProcessor
from queenmq.engine.queued_pushes.room import OperationRoom
from queenmq.engine.queued_pushes.spool_drain import SpoolDrain
from queenmq.server.wiring.ground import Ground
from queenmq.server.wiring.limits import push_limits
from queenmq.settings import Settings
from queenmq.storage.spool.pair import SpoolPair
from queenmq.storage.spool.push_journal import SpoolJournal


@dataclass(frozen=True, kw_only=True)
class Pushing:
    """The push path."""

    operations: OperationMetrics
    room: OperationRoom
    spool_files: SpoolPair
    journal: SpoolJournal
    spool: PushSpool
    push: PushService
    accepted: AcceptedPushes
    drain: SpoolDrain


def make_pushing(ground: Ground) -> Pushing:
    """Build it."""
    settings = ground.settings
    operations = OperationMetrics(ground.registry)
    room = OperationRoom(
        operations,
        all_max=settings.load_push_queue_max,
        partition_max=settings.load_partition_queue_max,
    )
    spool_files = SpoolPair(_spool_home(settings), bytes_max=settings.spool_max_bytes)
    journal = SpoolJournal(spool_files)
    spool = PushSpool(
        journal,
        is_down=ground.membership.is_down,
        news=ground.news,
        seal=lambda items: ground.sealing.fit_for_disk(items, ground.catalogue.get),
    )
    push = PushService(
        ground.messages,
        ground.catalogue,
        spool,
        push_limits(settings),
        queue_max=room.measure,
        has_operations=lambda: operations.depth > 0,
        news=ground.news,
        sealing=ground.sealing,
        pace=ground.paces.push,
        registry=ground.registry,
    )
    accepted = AcceptedPushes(ground.catalogue, push.send)
    return Pushing(
        operations=operations,
        room=room,
        spool_files=spool_files,
        journal=journal,
        spool=spool,
        push=push,
        accepted=accepted,
        drain=SpoolDrain(spool, journal, accepted.store, registry=ground.registry),
    )


def make_processor(
    ground: Ground, operations: OperationMetrics, load: LoadManager
) -> OperationProcessor:
    """Build what runs the operation queue, slowly while the load holds pushes back."""
    return OperationProcessor(
        ground.operations,
        operations,
        ground.catalogue,
        worker=f"{os.uname().nodename}:{os.getpid()}",
        lock_timeout_ms=ground.settings.push_lock_timeout_ms,
        is_engaged=lambda: load.is_engaged(OperationType.PUSH),
        news=ground.news,
    )


def _spool_home(settings: Settings) -> Path:
    """Return the parent of a directory per database, because pushes kept for one database must not
    reach another.
    """
    return Path(settings.spool_dir) if settings.spool_dir else Path(settings.data_dir) / "spool"
