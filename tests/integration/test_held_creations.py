"""Partitions that another session is creating: only the pushes to them wait."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from queenmq.engine.catalogue import Catalogue
from queenmq.engine.news import News
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.push.service import PushLimits, PushService
from queenmq.engine.push.spooling import PushSpool
from queenmq.engine.requests import PartitionKey, PartitionRef, PushItems
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database
from queenmq.storage.spool import Spool
from queenmq.storage.spool.push_journal import SpoolJournal
from queenmq.storage.stores.messages import PostgresMessageStore
from tests.isolation.sessions import Connect, ensure
from tests.support.broker import SOON_S, unique
from tests.support.waiting import wait_until_async

_LOCK_TIMEOUT_MS = 20
_WAIT_MS = 1_000 * int(SOON_S)
#: New partitions that are pushed to while another one is held.
_OTHERS = 20


class WatchedStore(PostgresMessageStore):
    """The broker's store, which notes the tasks that ask for each partition."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.askers: dict[PartitionKey, set[asyncio.Task[Any] | None]] = defaultdict(set)

    async def ensure_partitions(
        self, keys: Sequence[PartitionKey], *, lock_timeout_ms: int
    ) -> list[PartitionRef]:
        for key in keys:
            self.askers[key].add(asyncio.current_task())
        return await super().ensure_partitions(keys, lock_timeout_ms=lock_timeout_ms)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[WatchedStore]:
    """The store on the test's own database."""
    opened = Database(database_url, Settings())
    await opened.open()
    yield WatchedStore(opened)
    await opened.close()


@pytest.fixture
async def service(store: WatchedStore, tmp_path: Path) -> AsyncIterator[PushService]:
    files = Spool(tmp_path / "spool", bytes_max=1_000_000)
    await files.open()
    yield PushService(
        store,
        Catalogue(store, lock_timeout_ms=_LOCK_TIMEOUT_MS, wait_ms=_WAIT_MS),
        PushSpool(SpoolJournal(files), is_down=lambda: False, news=News()),
        PushLimits(
            calls_max=2,
            rows_max=1_000,
            waiting_max=1_000,
            lock_timeout_ms=_LOCK_TIMEOUT_MS,
            wait_ms=_WAIT_MS,
        ),
        queue_max=lambda: 1_000,
        has_operations=lambda: False,
        news=News(),
    )
    await files.close()


async def _push(service: PushService, queue: str, partition: str) -> list[ItemOutcome]:
    pushed = await service.push(PushItems([PartitionKey(queue, partition)], ["1"]))
    return list(pushed.outcomes)


@pytest.mark.parametrize("is_queue_new", [False, True], ids=["partition", "queue"])
async def test_a_partition_that_another_session_creates_holds_up_its_own_pushes_only(
    service: PushService,
    store: WatchedStore,
    database: asyncpg.Connection,
    connect: Connect,
    is_queue_new: bool,
) -> None:
    other, queue = await connect(), unique()
    held = PartitionKey(queue, "held")
    if not is_queue_new:
        await ensure(database, queue)
    opened = other.transaction()
    await opened.start()
    await ensure(other, *held)
    waiting = asyncio.create_task(_push(service, *held))
    await wait_until_async(
        lambda: len(store.askers[held]) == 2, timeout_s=SOON_S, what="the call of its own"
    )
    beside = unique() if is_queue_new else queue
    for number in range(_OTHERS):
        assert await _push(service, beside, f"p{number}") == [ItemOutcome.STORED]
    # The first call, and then the one task that waits for it.
    assert len(store.askers[held]) == 2
    assert all(len(store.askers[PartitionKey(beside, f"p{n}")]) == 1 for n in range(_OTHERS))
    assert not waiting.done()
    await opened.commit()
    assert await waiting == [ItemOutcome.STORED]
    assert len(store.askers[held]) == 2
