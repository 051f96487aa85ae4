"""The spool returns pushes unchanged, in order and once, and blocks no caller forever."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from queenmq.engine.news import News
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.push.spooling import PushSpool
from queenmq.engine.queued_pushes.spool_drain import SpoolDrain
from queenmq.engine.requests import PartitionKey, PushItems, PushOutcome
from queenmq.errors import (
    PartitionBusy,
    SpoolFull,
    StorageFault,
    StorageRejected,
    StorageUnavailable,
    public_text,
)
from queenmq.metrics.registry import Registry
from queenmq.storage.spool import Phase, Spool, SpoolStats
from queenmq.storage.spool.aside import Aside
from queenmq.storage.spool.push_journal import PushRecord, SpoolJournal, to_items, to_record
from tests.support.spools import opened
from tests.support.waiting import wait_until_async

_SOON_S = 30.0
_GONE = StorageUnavailable("gone")


class ScriptedStore:
    """Takes what it is given; what a test says about a payload happens to it, once each."""

    def __init__(self) -> None:
        self.stored: list[str] = []
        self.calls: list[list[str]] = []
        self.errors: dict[str, list[Exception]] = {}
        self.refused: set[str] = set()
        #: What is behind a failure in its partition fails with it, as in the real one.
        self.stops_at_error = False
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, requests: Sequence[PushItems]) -> list[BaseException | None]:
        self.calls.append([payload for items in requests for payload in items.payloads])
        await self.may_answer.wait()
        found: list[BaseException | None] = []
        for items in requests:
            before = next((error for error in found if error), None)
            found.append(before if before and self.stops_at_error else self._store(items))
        return found

    def _store(self, items: PushItems) -> BaseException | None:
        (payload,) = items.payloads
        if payload in self.refused:
            return StorageRejected("no such payload")
        if errors := self.errors.get(payload):
            return errors.pop(0)
        self.stored.append(payload)
        return None


class World:
    """A push spool on real files, with a store and a database that can be down."""

    def __init__(self, path: Path, files: Spool) -> None:
        self.path = path
        self.files = files
        self.store = ScriptedStore()
        self.is_down = False
        self.spool, self.drain = self.other(files)

    def other(self, files: Spool, registry: Registry | None = None) -> tuple[PushSpool, SpoolDrain]:
        """As another process would have it."""
        news, journal = News(), SpoolJournal(files)
        spool = PushSpool(journal, is_down=lambda: self.is_down, news=news)
        drain = SpoolDrain(spool, journal, self.store, registry=registry)
        news.spooled.declare(drain.note_spooled)
        return spool, drain

    def reasons(self) -> list[tuple[bytes, str]]:
        """Return the records set aside, and why."""
        aside = Aside(self.path / "aside")
        try:
            return [(entry.body, entry.reason) for entry in aside.entries()]
        finally:
            aside.close()

    async def wait_stored(self, *payloads: str) -> None:
        await wait_until_async(
            lambda: self.store.stored == list(payloads), timeout_s=_SOON_S, what="the drain"
        )

    async def wait_empty(self) -> None:
        await wait_until_async(
            lambda: not self.files.pending, timeout_s=_SOON_S, what="an empty spool"
        )

    async def wait_calls(self, count: int) -> None:
        await wait_until_async(
            lambda: len(self.store.calls) >= count, timeout_s=_SOON_S, what=f"{count} calls"
        )


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[Spool]:
    async with opened(tmp_path / "spool") as spool:
        yield spool


@pytest.fixture
async def world(files: Spool, tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path / "spool", files)
    await made.drain.start()
    yield made
    await made.drain.stop()


def one(payload: str, *, transaction_id: str | None = None) -> PushItems:
    ids = None if transaction_id is None else [transaction_id]
    return PushItems(keys=[PartitionKey("orders", "p")], payloads=[payload], transaction_ids=ids)


async def keep(world: World, *payloads: str) -> None:
    for payload in payloads:
        outcome = await world.spool.take(one(payload))
        assert outcome is not None, "not kept"


def test_record_comes_back_as_it_was() -> None:
    items = PushItems(
        keys=[PartitionKey("a/b", "ü"), PartitionKey("orders", "Default")],
        payloads=['{"a": 1.0,  "b":"\\u0000\\ud83d\\ude00 ☃"}', "null"],
        transaction_ids=["t-1", "ť"],
        trace_ids=[UUID(int=7), None],
        producer_subs=[None, "alice"],
    )
    record = to_record(items)
    again = to_items(msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=PushRecord))
    assert again == items
    # All but the time at which it was accepted.
    second = msgspec.structs.replace(to_record(again), accepted_ms=record.accepted_ms)
    assert msgspec.msgpack.encode(second) == msgspec.msgpack.encode(record), "byte for byte"


def test_ids_are_made_once() -> None:
    items = PushItems(
        keys=[PartitionKey("orders", "p")] * 3,
        payloads=["1", "2", "3"],
        transaction_ids=[None, "mine", None],
    )
    record = to_record(items)
    first, mine, last = record.transaction_ids
    assert mine == "mine" and first != last
    assert {UUID(first).version, UUID(last).version} == {7}
    assert to_record(to_items(record)).transaction_ids == record.transaction_ids
    assert items.transaction_ids == [None, "mine", None], "the request is not changed"


def test_columns_that_do_not_match_are_no_push() -> None:
    record = to_record(one("1"))
    record.payloads = ["1", "2"]
    with pytest.raises(ValueError, match="lengths"):
        to_items(record)


async def test_nothing_is_kept_without_need(world: World) -> None:
    assert not world.spool.is_needed
    assert await world.spool.take(one("1")) is None


async def test_push_in_an_outage_is_kept_and_answered_with_its_id(world: World) -> None:
    world.is_down = True
    assert world.spool.is_needed
    outcome = await world.spool.take(one("1", transaction_id="mine"))
    assert outcome == PushOutcome((), ["mine"], [ItemOutcome.SPOOLED])
    assert outcome.is_delayed
    outcome = await world.spool.take(one("2"))
    assert outcome is not None and outcome.message_ids[0] is not None
    assert UUID(outcome.message_ids[0]).version == 7


async def test_push_in_maintenance_is_kept_and_not_called_late(world: World) -> None:
    world.spool.is_buffering = True
    outcome = await world.spool.take(one("1", transaction_id="mine"))
    assert outcome == PushOutcome((), ["mine"], [ItemOutcome.SPOOLED_FOR_MAINTENANCE])
    assert not outcome.is_delayed


async def test_what_may_not_wait_is_refused_only_when_it_would_overtake(world: World) -> None:
    world.spool.check_order("cycle")
    world.is_down = True
    # The database says this itself, and better.
    world.spool.check_order("cycle")
    await world.spool.take(one("1"))
    with pytest.raises(StorageUnavailable, match="disk, and this cycle would overtake") as caught:
        world.spool.check_order("cycle")
    assert public_text(caught.value) == str(caught.value)
    world.is_down = False
    world.drain.wake()
    await world.wait_empty()
    world.spool.check_order("cycle")
    world.spool.is_buffering = True
    with pytest.raises(StorageUnavailable, match="maintenance, and this transaction would"):
        world.spool.check_order("transaction")


async def test_pushes_are_stored_in_order_when_the_database_is_back(world: World) -> None:
    world.is_down = True
    payloads = [str(number) for number in range(2_500)]
    await asyncio.gather(*(world.spool.take(one(payload)) for payload in payloads))
    assert world.store.calls == []
    world.is_down = False
    world.drain.wake()
    await world.wait_stored(*payloads)
    await world.wait_empty()
    assert not world.spool.is_needed
    assert len(world.store.calls) == 3, "in batches"
    assert await world.spool.take(one("direct")) is None


async def test_maintenance_keeps_everything_and_drains_afterwards(world: World) -> None:
    world.spool.is_buffering = True
    await keep(world, "1", "2")
    world.drain.wake()
    assert world.store.calls == []
    world.spool.is_buffering = False
    world.drain.wake()
    await world.wait_stored("1", "2")


async def test_what_an_earlier_process_left_is_drained_at_the_start(
    files: Spool, tmp_path: Path
) -> None:
    world = World(tmp_path / "spool", files)
    await files.append(msgspec.msgpack.encode(to_record(one("left"))))
    await world.drain.start()
    await world.wait_stored("left")
    await world.drain.stop()


async def test_push_goes_behind_what_is_being_stored(world: World) -> None:
    world.is_down = True
    # More than one batch, so that the end is not near.
    await asyncio.gather(*(world.spool.take(one(str(number))) for number in range(1_500)))
    world.store.may_answer.clear()
    world.is_down = False
    world.drain.wake()
    await world.wait_calls(1)
    assert world.files.phase is not Phase.CLOSING
    await keep(world, "behind")
    world.store.may_answer.set()
    await world.wait_stored(*map(str, range(1_500)), "behind")


async def test_push_near_the_end_waits_for_it_and_goes_on_its_own(world: World) -> None:
    world.is_down = True
    await keep(world, "1")
    world.store.may_answer.clear()
    world.is_down = False
    world.drain.wake()
    await world.wait_calls(1)
    assert world.files.phase is Phase.CLOSING
    waiting = asyncio.create_task(world.spool.take(one("2")))
    await asyncio.wait([waiting], timeout=0.05)
    assert not waiting.done()
    world.store.may_answer.set()
    assert await waiting is None, "the database may have it now"
    assert world.store.stored == ["1"]
    await wait_until_async(
        lambda: world.files.phase is Phase.OPEN, timeout_s=_SOON_S, what="the end of the drain"
    )


async def test_push_that_waits_for_the_end_is_kept_in_the_next_outage(world: World) -> None:
    world.is_down = True
    await keep(world, "1")
    world.store.may_answer.clear()
    world.store.errors = {"1": [_GONE]}
    world.is_down = False
    world.drain.wake()
    await world.wait_calls(1)
    waiting = asyncio.create_task(world.spool.take(one("2")))
    await asyncio.wait([waiting], timeout=0.02)
    world.is_down = True
    outcome = await waiting
    assert outcome is not None and outcome.outcomes == [ItemOutcome.SPOOLED]
    world.store.may_answer.set()
    world.is_down = False
    world.drain.wake()
    await world.wait_stored("1", "2")


async def test_steady_stream_of_pushes_does_not_keep_the_spool_open(world: World) -> None:
    world.is_down = True

    async def produce(name: int) -> None:
        """Push at once again as long as pushes are kept."""
        number = 1
        while await world.spool.take(one(f"{name}-{number}")) is not None:
            number += 1

    producers = [asyncio.create_task(produce(name)) for name in range(10)]
    await wait_until_async(lambda: world.files.pending > 100, timeout_s=_SOON_S, what="records")
    world.is_down = False
    world.drain.wake()
    async with asyncio.timeout(_SOON_S):
        await asyncio.gather(*producers)
    await world.wait_empty()
    numbers: dict[str, list[int]] = {}
    for payload in world.store.stored:
        name, _, number = payload.partition("-")
        numbers.setdefault(name, []).append(int(number))
    assert all(found == sorted(found) for found in numbers.values())


async def test_record_that_cannot_be_read_or_stored_is_set_aside(
    world: World, files: Spool
) -> None:
    world.is_down = True
    world.store.refused = {"bad"}
    await keep(world, "1", "bad")
    await files.append(b"no record")
    await files.append(msgspec.msgpack.encode(["too", "short"]))
    await keep(world, "2")
    world.is_down = False
    world.drain.wake()
    await world.wait_stored("1", "2")
    await world.wait_empty()
    stats = files.stats()
    assert (stats.pending_records, stats.aside_records) == (0, 3)
    kept = dict(world.reasons())
    assert kept[b"no record"] == "it cannot be read"
    # What the database says is for the log.
    assert [why for why in kept.values() if "refused the data" in why and "error id" in why]


async def test_record_is_set_aside_once_however_often_its_batch_is_tried(
    world: World, files: Spool
) -> None:
    world.is_down = True
    world.store.refused = {"bad"}
    world.store.errors = {"2": [_GONE, _GONE]}
    await files.append(b"no record")
    await keep(world, "1", "bad", "2")
    world.is_down = False
    world.drain.wake()
    await world.wait_stored("1", "2")
    await world.wait_empty()
    assert len(world.store.calls) == 3
    assert files.stats().aside_records == 2


@pytest.mark.parametrize("error", [_GONE, PartitionBusy("held"), RuntimeError("a defect")])
async def test_store_that_fails_leaves_everything_and_is_tried_again(
    world: World, files: Spool, error: Exception
) -> None:
    world.is_down = True
    world.store.errors = {"2": [error]}
    await keep(world, "1", "2", "3")
    world.store.may_answer.clear()
    world.is_down = False
    world.drain.wake()
    await world.wait_calls(1)
    world.is_down = True
    world.store.may_answer.set()
    await wait_until_async(
        lambda: files.phase is Phase.OPEN, timeout_s=_SOON_S, what="the drain to give up"
    )
    assert files.pending == 3
    world.is_down = False
    # That the third did not wait for the second is the store's business.
    await world.wait_stored("1", "3", "2")
    await world.wait_empty()
    assert files.stats().aside_records == 0
    # What was stored or queued is not given to the store a second time.
    assert world.store.calls == [["1", "2", "3"], ["2"]]


async def test_fault_keeps_everything_in_order_and_new_pushes_out(
    world: World, files: Spool
) -> None:
    fault = StorageFault("no such table", code="42P01")
    world.is_down = True
    world.store.errors = {"1": [fault] * 3}
    await keep(world, "1", "2", "3")
    world.is_down = False
    world.store.stops_at_error = True
    world.drain.wake()
    await wait_until_async(
        lambda: files.phase is Phase.STUCK, timeout_s=_SOON_S, what="the drain to be stuck"
    )
    assert files.stats().is_stuck
    async with opened(world.path) as shared:
        other, _ = world.other(shared)
        for spool in (world.spool, other):
            with pytest.raises(StorageFault):
                await spool.take(one("4"))
    world.is_down = True
    outcome = await world.spool.take(one("4"))
    assert outcome is not None, "an outage has its own rules"
    world.is_down = False
    await world.wait_stored("1", "2", "3", "4")
    await world.wait_empty()
    assert files.stats() == SpoolStats(0, 0, 0, 0)
    # One record is enough to see that the fault is still there.
    assert world.store.calls[1:3] == [["1"], ["1"]]


async def test_store_that_breaks_as_a_whole_is_tried_again(files: Spool, tmp_path: Path) -> None:
    world = World(tmp_path / "spool", files)
    broken = [_GONE, RuntimeError("a defect")]

    async def store(requests: Sequence[PushItems]) -> Sequence[BaseException | None]:
        if broken:
            raise broken.pop(0)
        return await world.store(requests)

    drain = SpoolDrain(world.spool, SpoolJournal(files), store)
    await files.append(msgspec.msgpack.encode(to_record(one("1"))))
    await drain.start()
    await world.wait_stored("1")
    await drain.stop()


async def test_full_spool_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path / "spool", bytes_max=1_000) as files:
        world = World(tmp_path / "spool", files)
        world.is_down = True
        await world.drain.start()
        with pytest.raises(SpoolFull):
            for _ in range(100):
                await world.spool.take(one('"' + "x" * 100 + '"'))
        await world.drain.stop()


async def test_stop_in_the_middle_leaves_what_is_not_stored(files: Spool, tmp_path: Path) -> None:
    world = World(tmp_path / "spool", files)
    world.store.may_answer.clear()
    await files.append(msgspec.msgpack.encode(to_record(one("1"))))
    await world.drain.start()
    await world.wait_calls(1)
    await world.drain.stop()
    assert files.pending == 1
    assert files.phase is Phase.OPEN, "nobody may wait for a drain that has ended"
    world.store.may_answer.set()
    async with opened(tmp_path / "spool") as other:
        assert await other.try_lead(), "another process may drain now"
    world.spool, world.drain = world.other(files)
    await world.drain.start()
    await world.wait_stored("1")
    await world.wait_empty()
    await world.drain.stop()


async def test_caller_that_leaves_while_it_waits_changes_nothing(world: World) -> None:
    world.is_down = True
    await keep(world, "1")
    world.store.may_answer.clear()
    world.is_down = False
    world.drain.wake()
    await world.wait_calls(1)
    waiting = asyncio.create_task(world.spool.take(one("2")))
    await asyncio.wait([waiting], timeout=0.02)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    world.store.may_answer.set()
    await world.wait_stored("1")
    await world.wait_empty()
    assert await world.spool.take(one("3")) is None


async def test_two_processes_drain_what_either_has_kept(world: World, tmp_path: Path) -> None:
    async with opened(tmp_path / "spool") as shared:
        other, drain = world.other(shared)
        await drain.start()
        world.is_down = True
        for number in range(10):
            spool = (world.spool, other)[number % 2]
            assert await spool.take(one(str(number))) is not None
        world.is_down = False
        drain.wake()
        world.drain.wake()
        await world.wait_stored(*map(str, range(10)))
        await world.wait_empty()
        await drain.stop()


async def test_age_of_what_is_kept_is_told(world: World, files: Spool) -> None:
    registry = Registry()
    world.is_down = True
    await keep(world, "1", "2")
    await world.drain.stop()
    # The next process finds what the first has kept, and knows how old it is.
    _, later = world.other(files, registry)
    await later.start()
    await wait_until_async(
        lambda: registry.sum("queen_spool_oldest_seconds") > 0, timeout_s=_SOON_S, what="the age"
    )
    world.is_down = False
    later.wake()
    await world.wait_stored("1", "2")
    await world.wait_empty()
    assert registry.sum("queen_spool_oldest_seconds") == 0
    await later.stop()


async def test_a_record_of_an_older_release_is_read(files: Spool) -> None:
    old = ["orders"], ["p"], ["1"], ["t"], None, None
    await files.append(msgspec.msgpack.encode(old))
    journal = SpoolJournal(files)
    assert await journal.try_lead()
    (record,) = (await journal.read(records_max=1, bytes_max=1_000)).records
    await journal.release_lead()
    assert record.items is not None and record.items.payloads == ["1"]
    assert record.accepted_ms == 0
