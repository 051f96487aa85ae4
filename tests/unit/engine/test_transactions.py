"""Transactions that wait are bounded, and the one too many is refused like everything else."""

from __future__ import annotations

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest

from queenmq.engine.news import News
from queenmq.engine.requests import PushItems, TransactionItems
from queenmq.engine.transactions import TransactionService
from queenmq.errors import Overloaded
from queenmq.server.answers.error_responses import body_of, retry_after_s, status_of
from queenmq.server.metering.refusals import BOUNDS

ITEMS = TransactionItems(PushItems([], []), [], [], UUID(int=1), None, is_key_derived=True)


class _Away:
    """A database that does not answer: no partition is ever found."""

    def get_all(self, keys: object) -> None:
        return None

    async def ensure(self, keys: object) -> object:
        return await asyncio.Event().wait()


async def test_one_transaction_too_many_is_429() -> None:
    away = cast(Any, _Away())
    service = TransactionService(
        away,
        away,
        lock_timeout_ms=1,
        wait_ms=1,
        queue_max=lambda: 1,
        news=News(),
    )
    waiting = [service.submit(ITEMS) for _ in range(10_000)]
    try:
        # A turn of the loop, in which all of them begin.
        await asyncio.wait(waiting, timeout=0)
        with pytest.raises(Overloaded) as caught:
            service.submit(ITEMS)
    finally:
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    error = caught.value
    assert status_of(error) == 429 and retry_after_s(error) == 1
    assert body_of(error)["code"] == "overloaded" and body_of(error)["depth"] == 10_000
    assert error.bound in BOUNDS
    # There is room again.
    last = service.submit(ITEMS)
    done, _ = await asyncio.wait([last], timeout=0.01)
    assert not done
    last.cancel()
