"""The broker's memory of partitions, with a store whose answers the test decides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from queenmq.engine.catalogue import Catalogue
from queenmq.engine.requests import PartitionKey, PartitionRef
from queenmq.errors import (
    PartitionBusy,
    QueenError,
    StorageFault,
    StorageRejected,
    StorageUnavailable,
)

A, B = PartitionKey("orders", "a"), PartitionKey("orders", "b")
#: Seconds after which a caller that got no answer counts as forgotten.
FORGOTTEN_S = 1.0


def make_ref(key: PartitionKey) -> PartitionRef:
    partition_id = UUID(int=sum(key.partition.encode()))
    return PartitionRef(key, partition_id, str(partition_id), UUID(int=1), "", "", False)


def keys_of(refs: Sequence[PartitionRef]) -> list[PartitionKey]:
    return [ref.key for ref in refs]


async def cancel_all(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Store:
    """The database's side of the catalogue: answers when it is let, fails or forgets if told to."""

    def __init__(self) -> None:
        self.asked: list[list[PartitionKey]] = []
        self.gone: set[PartitionKey] = set()
        self.error: QueenError | None = None
        self.bad: set[PartitionKey] = set()
        #: Being created by another transaction.
        self.held: set[PartitionKey] = set()
        #: Keys whose own calls meet a bug.
        self.broken: set[PartitionKey] = set()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.was_asked = asyncio.Event()

    async def ensure_partitions(
        self, keys: Sequence[PartitionKey], *, lock_timeout_ms: int
    ) -> list[PartitionRef]:
        self.asked.append(list(keys))
        self.was_asked.set()
        await self.may_answer.wait()
        if len(keys) == 1 and keys[0] in self.broken:
            raise RuntimeError("a bug")
        if self.held.intersection(keys):
            raise PartitionBusy("held")
        if self.error is not None:
            raise self.error
        if self.bad.intersection(keys):
            raise StorageRejected("no such name")
        return [make_ref(key) for key in keys if key not in self.gone]


@pytest.fixture
async def store() -> Store:
    return Store()


@pytest.fixture
async def catalogue(store: Store) -> Catalogue:
    return Catalogue(store, lock_timeout_ms=100, wait_ms=1_000)  # type: ignore[arg-type]


async def test_a_partition_is_asked_for_once(store: Store, catalogue: Catalogue) -> None:
    assert keys_of(await catalogue.ensure([A, B, A])) == [A, B, A]
    assert keys_of(await catalogue.ensure([B])) == [B]
    assert sorted(key for keys in store.asked for key in keys) == [A, B]


async def test_a_forgotten_partition_is_asked_for_again(store: Store, catalogue: Catalogue) -> None:
    await catalogue.ensure([A])
    catalogue.forget([A])
    assert catalogue.get(A) is None
    await catalogue.ensure([A])
    assert len(store.asked) == 2


async def test_forget_queue_drops_that_queue_only(catalogue: Catalogue) -> None:
    other = PartitionKey("mails", "a")
    await catalogue.ensure([A, B, other])
    catalogue.forget_queue("orders")
    assert [key for key in (A, B, other) if catalogue.get(key)] == [other]


async def test_concurrent_callers_share_one_question(store: Store, catalogue: Catalogue) -> None:
    store.may_answer.clear()
    callers = [asyncio.create_task(catalogue.ensure([A])) for _ in range(3)]
    await store.was_asked.wait()
    store.may_answer.set()
    assert [keys_of(refs) for refs in await asyncio.gather(*callers)] == [[A]] * 3
    assert store.asked == [[A]]


async def test_a_caller_who_leaves_does_not_take_the_answer_along(
    store: Store, catalogue: Catalogue
) -> None:
    store.may_answer.clear()
    leaves = asyncio.create_task(catalogue.ensure([A]))
    stays = asyncio.create_task(catalogue.ensure([A]))
    await store.was_asked.wait()
    leaves.cancel()
    store.may_answer.set()
    assert keys_of(await stays) == [A]


async def test_an_error_reaches_the_caller_and_is_not_remembered(
    store: Store, catalogue: Catalogue
) -> None:
    store.error = StorageUnavailable("no database")
    with pytest.raises(StorageUnavailable):
        await catalogue.ensure([A])
    store.error = None
    assert keys_of(await catalogue.ensure([A])) == [A]


async def test_a_partition_forgotten_during_the_question_does_not_break_the_caller(
    store: Store, catalogue: Catalogue
) -> None:
    await catalogue.ensure([A])
    store.may_answer.clear()
    store.was_asked.clear()
    caller = asyncio.create_task(catalogue.ensure([A, B]))
    await store.was_asked.wait()
    catalogue.forget([A])
    store.may_answer.set()
    assert keys_of(await caller) == [A, B]


async def test_a_partition_that_the_store_left_out_does_not_leave_its_caller_waiting(
    store: Store, catalogue: Catalogue
) -> None:
    # The queue was deleted while the store was making the partition.
    store.gone.add(A)
    with pytest.raises(QueenError):
        await asyncio.wait_for(catalogue.ensure([A]), FORGOTTEN_S)
    store.gone.clear()
    assert keys_of(await asyncio.wait_for(catalogue.ensure([A]), FORGOTTEN_S)) == [A]


async def test_a_name_that_is_refused_fails_alone(store: Store, catalogue: Catalogue) -> None:
    store.bad = {A}
    calls = (catalogue.ensure([key]) for key in (A, B))
    refused, found = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(refused, StorageRejected)
    assert not isinstance(found, BaseException) and keys_of(found) == [B]


async def test_a_fault_fails_all_with_one_question(store: Store, catalogue: Catalogue) -> None:
    store.error = StorageFault("no such function", code="42883")
    calls = (catalogue.ensure([key]) for key in (A, B))
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in found] == [StorageFault] * 2
    assert len(store.asked) == 1


class SlowStore(Store):
    """A database in which calls for held partitions alone do not return."""

    async def ensure_partitions(
        self, keys: Sequence[PartitionKey], *, lock_timeout_ms: int
    ) -> list[PartitionRef]:
        if len(keys) == 1 and self.held.issuperset(keys):
            await asyncio.Event().wait()
        return await super().ensure_partitions(keys, lock_timeout_ms=lock_timeout_ms)


async def test_the_wait_for_a_connection_ends_with_the_deadline() -> None:
    store = SlowStore()
    catalogue = Catalogue(store, lock_timeout_ms=100, wait_ms=50)  # type: ignore[arg-type]
    third = PartitionKey("orders", "c")
    store.held = {A, B, third}
    # They share the first call. Of the calls apart, two do not return.
    waiting = [asyncio.create_task(catalogue.ensure([key])) for key in (A, B, third)]
    with pytest.raises(PartitionBusy):
        await asyncio.wait_for(waiting[2], FORGOTTEN_S)
    assert not waiting[0].done() and not waiting[1].done()
    await cancel_all(waiting)


async def test_a_partition_that_stays_held_is_refused_after_the_wait(store: Store) -> None:
    catalogue = Catalogue(store, lock_timeout_ms=1, wait_ms=20)  # type: ignore[arg-type]
    store.held = {A}
    with pytest.raises(PartitionBusy):
        await asyncio.wait_for(catalogue.ensure([A]), FORGOTTEN_S)
    store.held.clear()
    assert keys_of(await asyncio.wait_for(catalogue.ensure([A]), FORGOTTEN_S)) == [A]


async def test_a_bug_in_the_call_of_one_partition_is_answered_and_not_remembered(
    store: Store, catalogue: Catalogue, caplog: pytest.LogCaptureFixture
) -> None:
    # Refused together, so each is asked for alone.
    store.bad, store.broken = {B}, {A}
    calls = (catalogue.ensure([key]) for key in (A, B))
    found = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), FORGOTTEN_S)
    assert [type(one) for one in found] == [StorageUnavailable, StorageRejected]
    assert [vars(record)["event"] for record in caplog.records] == ["call_broke"]
    store.broken.clear()
    assert keys_of(await asyncio.wait_for(catalogue.ensure([A]), FORGOTTEN_S)) == [A]
