"""Acks that wait for a call: counted, aged and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from queenmq.clock import now_ms
from queenmq.engine.ack.service import AckService
from queenmq.engine.news import News
from queenmq.engine.requests import AckItem
from queenmq.errors import Overloaded
from tests.support.waiting import wait_until_async


class SlowStore:
    """A database that answers acks when told to."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.is_called = asyncio.Event()

    async def find_busy_cursors(self, keys: Sequence[Any]) -> set[Any]:
        return set()

    async def ack_messages(self, items: Sequence[AckItem], *, lock_timeout_ms: int) -> list[Any]:
        self.is_called.set()
        await self.may_answer.wait()
        return [cast(Any, Settled()) for _ in items]


class Settled:
    """A result that frees nothing."""

    lease_released = False


def make_service(store: SlowStore, *, waiting_max: int) -> AckService:
    return AckService(
        cast(Any, store),
        calls_max=1,
        rows_max=100,
        waiting_max=waiting_max,
        lock_timeout_ms=1,
        wait_ms=1_000,
        news=News(),
    )


def make_items(number: int = 1) -> list[AckItem]:
    place = {"partition_id": UUID(int=number), "consumer_group": "g"}
    return [AckItem(**cast(Any, {**dict.fromkeys(AckItem._fields), **place}))]


async def test_who_waits_is_counted_ages_and_is_bounded() -> None:
    store = SlowStore()
    service = make_service(store, waiting_max=1)
    items = make_items()
    started = now_ms()
    first = service.ack(items)
    await store.is_called.wait()
    assert (service.depth, service.oldest_ms(started + 5_000)) == (0, 0), "in a call, not waiting"
    second = service.ack(items)
    await wait_until_async(lambda: service.depth == 1, timeout_s=30, what="the second to wait")
    # It arrived between the start and now.
    assert service.oldest_ms(started + 5_000) <= 5_000
    assert service.oldest_ms(now_ms() + 5_000) >= 5_000
    with pytest.raises(Overloaded, match="1 acks are already waiting") as caught:
        await service.ack(items)
    assert (caught.value.depth, caught.value.retry_after_s) == (1, 1)
    store.may_answer.set()
    assert [len(results) for results in await asyncio.gather(first, second)] == [1, 1]
    assert (service.depth, service.oldest_ms(now_ms())) == (0, 0)
