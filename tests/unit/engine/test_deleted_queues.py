"""A request whose queue is deleted each time is repeated equally often on every path."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from queenmq.engine.catalogue import REPEATS_MAX, Catalogue
from queenmq.engine.news import News
from queenmq.engine.push.service import PushLimits, PushService
from queenmq.engine.push.spooling import PushSpool
from queenmq.engine.requests import PartitionKey, PartitionRef, PushItems, TransactionItems
from queenmq.engine.streams.requests import CycleItems
from queenmq.engine.streams.service import CycleService
from queenmq.engine.transactions import TransactionService
from queenmq.errors import PartitionGone, StorageUnavailable
from queenmq.storage.spool import Spool
from queenmq.storage.spool.push_journal import SpoolJournal

KEY = PartitionKey("orders", "a")
REF = PartitionRef(KEY, UUID(int=1), str(UUID(int=1)), UUID(int=2), "", "", False)


class VanishingStore:
    """A database in which another client deletes the queue before each call."""

    def __init__(self) -> None:
        self.calls = 0

    async def ensure_partitions(
        self, keys: Sequence[PartitionKey], *, lock_timeout_ms: int
    ) -> list[PartitionRef]:
        return [REF for _ in keys]

    async def _fail(self, *_: Any, **__: Any) -> Any:
        self.calls += 1
        raise PartitionGone("gone")

    async def measure_state(self, query_ids: Sequence[UUID]) -> dict[UUID, int]:
        return {}

    async def find_busy_partitions(self, partition_ids: Sequence[UUID]) -> set[UUID]:
        return set()

    async def note_errors(self, errors: Any) -> None:
        pass

    push_messages = commit_transaction = commit_cycles = _fail


def _items() -> PushItems:
    return PushItems([KEY], ["1"])


async def _push(store: Any, catalogue: Catalogue, folder: Path) -> None:
    files = Spool(folder / "spool", bytes_max=1_000_000)
    await files.open()
    service = PushService(
        store,
        catalogue,
        PushSpool(SpoolJournal(files), is_down=lambda: False, news=News()),
        PushLimits(calls_max=1, rows_max=9, waiting_max=9, lock_timeout_ms=1, wait_ms=1_000),
        queue_max=lambda: 1,
        has_operations=lambda: False,
        news=News(),
    )
    try:
        await service.send(_items(), [REF], is_queued=False)
    finally:
        await files.close()


async def _transact(store: Any, catalogue: Catalogue, _: Path) -> None:
    service = TransactionService(
        store, catalogue, lock_timeout_ms=1, wait_ms=1_000, queue_max=lambda: 1, news=News()
    )
    items = TransactionItems(_items(), [], [], UUID(int=1), None, is_key_derived=True)
    await service.submit(items)


async def _cycle(store: Any, catalogue: Catalogue, _: Path) -> None:
    service = CycleService(
        store,
        store,
        catalogue,
        rows_max=9,
        state_bytes_max=9,
        lock_timeout_ms=1,
        wait_ms=1_000,
        queue_max=lambda: 1,
        news=News(),
    )
    place = UUID(int=1)
    await service.commit(
        CycleItems(place, place, "g", [], _items(), None, False, None, UUID(int=3))
    )


@pytest.mark.parametrize("send", [_push, _transact, _cycle], ids=["push", "transaction", "cycle"])
async def test_a_request_for_a_queue_that_is_deleted_all_the_time_is_repeated_five_times(
    send: Any, tmp_path: Path
) -> None:
    store: Any = VanishingStore()
    catalogue = Catalogue(store, lock_timeout_ms=1, wait_ms=1_000)
    with pytest.raises(StorageUnavailable, match="was deleted 6 times"):
        await asyncio.wait_for(send(store, catalogue, tmp_path), 5)
    assert store.calls == 1 + REPEATS_MAX == 6
