"""Requests that were answered before: stored in order, never refused, whatever stops a call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest

from queenmq.engine.catalogue import Catalogue
from queenmq.engine.news import News
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.push.service import PushLimits, PushService
from queenmq.engine.push.spooling import PushSpool
from queenmq.engine.queued_pushes.accepted_pushes import AcceptedPushes
from queenmq.engine.queued_pushes.accepted_row import split_items
from queenmq.engine.requests import PartitionKey, PartitionRef, PushCall, Pushed, PushItems
from queenmq.errors import (
    OperationQueueFull,
    PartitionBusy,
    StorageRejected,
    StorageUnavailable,
)
from queenmq.storage.spool import Spool
from queenmq.storage.spool.push_journal import SpoolJournal

_GONE = StorageUnavailable("gone")
_CUT_OFF = StorageUnavailable("cut off", is_in_doubt=True)


class ScriptedStore:
    """Keeps payloads by partition. `fail` sees every call before it is carried out."""

    def __init__(self) -> None:
        self.stored: dict[str, list[str]] = {}
        self.queued: dict[str, list[str]] = {}
        self.calls = 0
        self.fail: Callable[[PushCall], Exception | None] = lambda call: None
        self.bad_names: set[str] = set()
        self.is_gone = False

    async def ensure_partitions(
        self, keys: Sequence[PartitionKey], *, lock_timeout_ms: int
    ) -> list[PartitionRef]:
        if self.is_gone:
            raise _CUT_OFF
        if self.bad_names & {key.partition for key in keys}:
            raise StorageRejected("no such name")
        return [_ref(key) for key in keys]

    async def push_messages(
        self, call: PushCall, *, queue_max: int, checks_operations_first: bool, lock_timeout_ms: int
    ) -> Pushed:
        self.calls += 1
        if error := self.fail(call):
            raise error
        if call.queued_ids and queue_max < len(call.items.payloads):
            raise OperationQueueFull("full", partition_ids=call.queued_ids)
        for ref, payload in zip(call.refs, call.items.payloads, strict=True):
            place = self.queued if ref.partition_id in call.queued_ids else self.stored
            place.setdefault(ref.key.partition, []).append(payload)
        count = len(call.refs)
        return Pushed(["id"] * count, [ItemOutcome.STORED] * count, None)

    async def find_publishing(self, partition_ids: Sequence[UUID]) -> set[UUID]:
        return set()

    async def find_busy_partitions(self, partition_ids: Sequence[UUID]) -> set[UUID]:
        return {_ref(PartitionKey("orders", "held")).partition_id} & set(partition_ids)


def _ref(key: PartitionKey) -> PartitionRef:
    partition_id = uuid5(UUID(int=0), key.partition)
    return PartitionRef(
        key=key,
        partition_id=partition_id,
        id_text=str(partition_id),
        queue_id=UUID(int=1),
        namespace="",
        task="",
        is_encrypted=False,
    )


def _request(**payloads: str) -> PushItems:
    """One item per partition that is named."""
    return PushItems(
        keys=[PartitionKey("orders", name) for name in payloads], payloads=list(payloads.values())
    )


@pytest.fixture
def store() -> ScriptedStore:
    return ScriptedStore()


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[Spool]:
    spool = Spool(tmp_path / "spool", bytes_max=1_000_000)
    await spool.open()
    yield spool
    await spool.close()


@pytest.fixture
async def services(store: Any, files: Spool) -> AsyncIterator[tuple[PushService, AcceptedPushes]]:
    """Two messages fit into a call."""
    spool = PushSpool(SpoolJournal(files), is_down=lambda: False, news=News())
    catalogue = Catalogue(store, lock_timeout_ms=1, wait_ms=50)
    service = PushService(
        store,
        catalogue,
        spool,
        PushLimits(calls_max=2, rows_max=2, waiting_max=100, lock_timeout_ms=1, wait_ms=50),
        queue_max=lambda: 0,
        has_operations=lambda: False,
        news=News(),
    )
    yield service, AcceptedPushes(catalogue, service.send)


@pytest.fixture
def service(services: tuple[PushService, AcceptedPushes]) -> PushService:
    return services[0]


@pytest.fixture
def accepted(services: tuple[PushService, AcceptedPushes]) -> AcceptedPushes:
    return services[1]


def test_items_go_apart_by_partition() -> None:
    trace = UUID(int=7)
    items = PushItems(
        keys=[PartitionKey("q", name) for name in "abab"],
        payloads=["1", "2", "3", "4"],
        transaction_ids=["t1", None, "t3", "t4"],
        trace_ids=[None, trace, None, None],
    )
    first, second = split_items(items)
    assert (first.keys, first.payloads) == ([PartitionKey("q", "a")] * 2, ["1", "3"])
    assert (second.payloads, second.transaction_ids) == (["2", "4"], [None, "t4"])
    assert second.trace_ids == [trace, None] and first.trace_ids == [None, None]
    assert first.producer_subs is None
    assert split_items(first) == [first]


async def test_requests_are_stored_in_order(store: ScriptedStore, accepted: AcceptedPushes) -> None:
    requests = [_request(a=str(n), b=str(n)) for n in range(10)]
    assert await accepted.store(requests) == [None] * 10
    assert store.stored == {"a": list(map(str, range(10))), "b": list(map(str, range(10)))}


@pytest.mark.parametrize("error", [_GONE, _CUT_OFF])
async def test_nothing_overtakes_what_a_failed_call_left_behind(
    error: StorageUnavailable, store: ScriptedStore, accepted: AcceptedPushes
) -> None:
    def fail(call: PushCall) -> Exception | None:
        return error if "a2" in call.items.payloads else None

    store.fail = fail
    requests = [_request(**{name: f"{name}{n}"}) for n in range(6) for name in "ab"]
    results = await accepted.store(requests)
    done = [request for request, why in zip(requests, results, strict=True) if why is None]
    assert {payload for one in done for payload in one.payloads} == {
        payload for stored in store.stored.values() for payload in stored
    }
    # The rest of its partition has to come again, behind it.
    assert store.stored["a"] == ["a0", "a1"]
    failed = [why for why in results if why is not None]
    assert set(failed) == {error}
    store.fail = lambda call: None
    again = [request for request, why in zip(requests, results, strict=True) if why is not None]
    assert set(await accepted.store(again)) == {None}
    assert store.stored["a"] == [f"a{n}" for n in range(6)]
    assert store.stored["b"] == [f"b{n}" for n in range(6)]


async def test_refused_request_does_not_stop_the_others(
    store: ScriptedStore, accepted: AcceptedPushes
) -> None:
    def fail(call: PushCall) -> Exception | None:
        return StorageRejected("bad") if "bad" in call.items.payloads else None

    store.fail = fail
    requests = [_request(a="1"), _request(a="bad", b="1"), _request(a="2"), _request(b="2")]
    results = await accepted.store(requests)
    assert [type(why) for why in results] == [type(None), StorageRejected, type(None), type(None)]
    assert store.stored["a"] == ["1", "2"]


async def test_request_that_comes_again_is_not_called_refused(
    store: ScriptedStore, accepted: AcceptedPushes
) -> None:
    def fail(call: PushCall) -> Exception | None:
        if "bad" in call.items.payloads:
            return StorageRejected("bad")
        return _GONE if "b1" in call.items.payloads else None

    store.fail = fail
    for request in (_request(a="bad", b="b1"), _request(b="b1", a="bad")):
        assert await accepted.store([request]) == [_GONE]


async def test_held_partition_is_queued_in_order_and_holds_up_no_other(
    store: ScriptedStore, accepted: AcceptedPushes
) -> None:
    def fail(call: PushCall) -> Exception | None:
        is_held = any(ref.key.partition == "held" for ref in call.refs)
        return PartitionBusy("held") if is_held and not call.queued_ids else None

    store.fail = fail
    requests = [
        _request(held="1", a="1"),
        _request(a="2"),
        _request(held="2"),
        _request(a="3", held="3"),
    ]
    assert await accepted.store(requests) == [None] * 4
    assert store.stored == {"a": ["1", "2", "3"]}
    # However many may wait there: they were accepted.
    assert store.queued == {"held": ["1", "2", "3"]}


async def test_name_that_is_refused_fails_alone(
    store: ScriptedStore, accepted: AcceptedPushes
) -> None:
    store.bad_names = {"bad"}
    results = await accepted.store([_request(a="1"), _request(bad="1"), _request(b="1")])
    assert [type(why) for why in results] == [type(None), StorageRejected, type(None)]
    assert store.stored == {"a": ["1"], "b": ["1"]}


async def test_push_whose_partition_could_not_be_made_is_kept(
    store: ScriptedStore, service: PushService
) -> None:
    store.is_gone = True
    # Without an id of its own: no message was on its way, so nothing can be stored twice.
    outcome = await service.push(_request(new="1"))
    assert outcome.outcomes == [ItemOutcome.SPOOLED]


async def test_push_that_was_cut_off_is_kept_only_with_an_id(
    store: ScriptedStore, service: PushService
) -> None:
    store.fail = lambda call: _CUT_OFF
    with pytest.raises(StorageUnavailable):
        await service.push(_request(a="1"))
    items = _request(a="2")
    items.transaction_ids = ["mine"]
    assert (await service.push(items)).outcomes == [ItemOutcome.SPOOLED]
