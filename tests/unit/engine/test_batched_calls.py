"""Requests that meet held rows: each gets its answer, whatever becomes of its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from queenmq.clock import now_ms
from queenmq.engine.calls.batched_calls import BatchedCalls
from queenmq.engine.calls.entry import Answerable
from queenmq.engine.calls.lock_queues import LockQueues
from queenmq.errors import PartitionBusy, StorageUnavailable

#: Seconds after which a request without an answer counts as forgotten.
FORGOTTEN_S = 5.0


class Request(Answerable[str]):
    """A request for some rows."""

    weight = 1

    def __init__(self, *keys: str) -> None:
        self.keys: set[Any] = set(keys)
        self.deadline_ms = now_ms() + 60_000
        self.diverts = 0
        self.attempts = 0
        self.future = asyncio.get_running_loop().create_future()

    def still_held(self, key: Any) -> PartitionBusy:
        return PartitionBusy(f"{key} is held")


async def _find_none(keys: Sequence[Any]) -> set[Any]:
    return set()


async def test_a_bug_in_a_lock_queue_fails_its_call_and_nothing_behind_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = 0

    async def run(entries: list[Request], lock_timeout_ms: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("a bug")
        for entry in entries:
            entry.future.set_result("stored")

    queues = LockQueues("push", run, _find_none, calls_max=1, rows_max=1)
    first, second = Request("held"), Request("held")
    for request in (first, second):
        queues.open("held", request)
    assert queues.depth == 2
    assert await asyncio.wait_for(second.future, FORGOTTEN_S) == "stored"
    with pytest.raises(StorageUnavailable) as caught:
        await asyncio.wait_for(first.future, FORGOTTEN_S)
    # The database may have stored it before the bug.
    assert caught.value.is_in_doubt
    assert [vars(record)["event"] for record in caplog.records] == ["call_broke"]
    await asyncio.wait_for(queues.drain(), FORGOTTEN_S)
    assert queues.depth == 0 and not queues.join(Request("held"))


async def test_a_request_that_was_put_back_outlives_a_bug_of_its_call() -> None:
    async def run(entries: list[Request], lock_timeout_ms: int) -> None:
        # As for new partitions: the request goes elsewhere from here.
        entries[0].attempts += 1
        raise RuntimeError("a bug")

    queues = LockQueues("push", run, _find_none, calls_max=1, rows_max=9)
    moved, other = Request("held"), Request("held")
    for request in (moved, other):
        queues.open("held", request)
    with pytest.raises(StorageUnavailable):
        await asyncio.wait_for(other.future, FORGOTTEN_S)
    await asyncio.wait_for(queues.drain(), FORGOTTEN_S)
    assert not moved.future.done()


async def test_drain_waits_for_a_request_that_a_lock_queue_gives_back() -> None:
    is_held, is_free, may_end = True, asyncio.Event(), asyncio.Event()

    async def run(entries: list[Request], lock_timeout_ms: int) -> None:
        if is_held:
            raise PartitionBusy("held")
        await may_end.wait()
        for entry in entries:
            entry.future.set_result("stored")

    async def run_held(entries: list[Request], lock_timeout_ms: int) -> None:
        nonlocal is_held
        await is_free.wait()
        is_held = False
        for entry in entries:
            entry.attempts += 1
        calls.put_back(entries)

    async def find_busy(keys: Sequence[Any]) -> set[Any]:
        return set(keys)

    calls: BatchedCalls[Request] = BatchedCalls(
        "push",
        run,
        find_busy,
        calls_max=1,
        rows_max=9,
        lock_timeout_ms=1,
        run_held=run_held,
        wait_ms=60_000,
    )
    request = Request("held")
    calls.add(request)
    drained = asyncio.create_task(calls.drain())
    done, _ = await asyncio.wait([drained], timeout=0.02)
    assert not done and is_held
    # The lock queue gives it back, and its last call does not end yet.
    is_free.set()
    done, _ = await asyncio.wait([drained], timeout=0.02)
    assert not done and not is_held
    may_end.set()
    await asyncio.wait_for(drained, FORGOTTEN_S)
    assert request.future.done() and request.future.result() == "stored"
