"""Builds the paths of acks, transactions and stream cycles."""

from __future__ import annotations

from dataclasses import dataclass

from queenmq.engine.ack.service import AckService
from queenmq.engine.streams.service import CycleService
from queenmq.engine.transactions import TransactionService
from queenmq.server.wiring.ground import Ground
from queenmq.server.wiring.limits import LEAST_CALLS
from queenmq.server.wiring.pushing import Pushing
from queenmq.storage.stores.streams import StreamStore


@dataclass(frozen=True, kw_only=True)
class Acking:
    """The paths that end leases."""

    ack: AckService
    transactions: TransactionService
    cycles: CycleService


def make_acking(ground: Ground, pushing: Pushing) -> Acking:
    """Build them."""
    settings = ground.settings
    ack = AckService(
        ground.messages,
        calls_max=settings.ack_calls_max or LEAST_CALLS,
        rows_max=settings.ack_rows_max,
        waiting_max=settings.load_ack_queue_max,
        lock_timeout_ms=settings.push_lock_timeout_ms,
        wait_ms=settings.push_wait_ms,
        news=ground.news,
        pace=ground.paces.ack,
        registry=ground.registry,
    )
    transactions = TransactionService(
        ground.messages,
        ground.catalogue,
        lock_timeout_ms=settings.push_lock_timeout_ms,
        wait_ms=settings.push_wait_ms,
        queue_max=pushing.room.measure,
        news=ground.news,
        check_order=pushing.spool.check_order,
        sealing=ground.sealing,
        registry=ground.registry,
    )
    return Acking(ack=ack, transactions=transactions, cycles=_make_cycles(ground, pushing))


def _make_cycles(ground: Ground, pushing: Pushing) -> CycleService:
    settings = ground.settings
    return CycleService(
        StreamStore(ground.database),
        ground.messages,
        ground.catalogue,
        rows_max=settings.push_rows_max,
        state_bytes_max=settings.stream_state_bytes_max,
        lock_timeout_ms=settings.push_lock_timeout_ms,
        wait_ms=settings.push_wait_ms,
        queue_max=pushing.room.measure,
        news=ground.news,
        check_order=pushing.spool.check_order,
        sealing=ground.sealing,
        registry=ground.registry,
    )
