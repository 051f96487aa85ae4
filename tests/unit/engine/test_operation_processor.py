"""Running claimed operations: together, else in parts, until the one at fault is alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from queenmq.engine.queued_pushes.processor import cut, delay_ms
from queenmq.engine.requests import ClaimedOperation, PartitionKey, WaitingOperations
from queenmq.errors import (
    ClaimLost,
    PartitionBusy,
    PartitionGone,
    QueenError,
    StorageFault,
    StorageRejected,
    StorageUnavailable,
)
from tests.support.operation_lines import OperationLines, make_lines, make_processor
from tests.support.waiting import wait_until_async


def _claimed(*partitions: int) -> list[ClaimedOperation]:
    return [
        ClaimedOperation(UUID(int=n), UUID(int=place), "q", str(place), 0, 3, False)
        for n, place in enumerate(partitions)
    ]


def _fails(lines: OperationLines, *numbers: int, error: QueenError | None = None) -> None:
    """Every run with one of these operations in it fails."""
    bad = {UUID(int=number) for number in numbers}
    found = error or StorageRejected("wrong data")
    lines.before = lambda ids: found if bad & set(ids) else None


def _numbers(ids: Sequence[UUID]) -> list[int]:
    return [one.int for one in ids]


@pytest.mark.parametrize(
    ("partitions", "place"),
    [
        ([1, 1], 1),
        ([1, 1, 1], 1),
        ([1, 2], 1),
        ([1, 1, 1, 1, 2], 4),
        ([1, 2, 2, 2, 2, 2], 1),
        ([1, 2, 3, 4], 2),
        ([1, 1, 2, 2, 2, 3], 2),
    ],
)
def test_a_cut_is_between_partitions_where_there_are_several(
    partitions: list[int], place: int
) -> None:
    assert cut(_claimed(*partitions)) == place


def test_each_failure_doubles_the_wait_up_to_a_bound() -> None:
    waits = [delay_ms(StorageRejected("x"), runs) for runs in range(1, 12)]
    assert waits[:3] == [400, 800, 1_600]
    assert waits == sorted(waits) and waits[-1] == 10_000


@pytest.mark.parametrize("runs", [0, 5])
def test_a_held_partition_has_a_wait_of_its_own(runs: int) -> None:
    assert 0 < delay_ms(PartitionBusy("x"), runs) <= 1_000


async def test_all_that_is_claimed_is_run_together() -> None:
    lines, told = make_lines(3, 2, 1), []
    assert await make_processor(lines, told).run_once()
    assert len(lines.runs) == 1
    assert sorted(told) == [PartitionKey("orders", f"p{n}") for n in range(3)]
    assert not await make_processor(lines).run_once()


async def test_the_one_at_fault_is_found_and_all_others_are_stored() -> None:
    lines = make_lines(*[1] * 16)
    _fails(lines, 11)
    assert await make_processor(lines).run_once()
    assert sorted(_numbers(lines.stored)) == [n for n in range(1, 17) if n != 11]
    (bad,) = [one for one in lines.operations if one.status != "completed"]
    assert (bad.id.int, bad.retry_count, bad.status) == (11, 1, "pending")
    # Halves: about twice the logarithm, not one run each.
    assert len(lines.runs) <= 9


async def test_those_behind_the_one_at_fault_wait_and_those_before_it_do_not() -> None:
    lines = make_lines(6, 2)
    _fails(lines, 3)
    assert await make_processor(lines).run_once()
    assert sorted(_numbers(lines.stored)) == [1, 2, 7, 8]
    assert [one.status for one in lines.line(0)[2:]] == ["pending"] * 4
    assert [one.retry_count for one in lines.line(0)] == [0, 0, 1, 0, 0, 0]


async def test_an_operation_that_always_fails_is_run_as_often_as_allowed() -> None:
    lines = make_lines(2)
    _fails(lines, 1)
    processor = make_processor(lines)
    for _ in range(6):
        await processor.run_once()
    assert [one.status for one in lines.operations] == ["failed", "pending"]
    assert lines.runs.count([UUID(int=1)]) == 3
    assert not lines.stored


@pytest.mark.parametrize("error", [PartitionBusy("held"), PartitionGone("gone")])
async def test_what_is_not_the_fault_of_the_data_is_not_counted(error: QueenError) -> None:
    lines = make_lines(1, 1)
    _fails(lines, 1, error=error)
    processor = make_processor(lines)
    for _ in range(5):
        await processor.run_once()
    assert [(one.status, one.retry_count) for one in lines.operations] == [
        ("pending", 0), ("completed", 0),
    ]  # fmt: skip
    assert str(error) in lines.errors


async def test_all_is_given_back_when_the_database_is_gone() -> None:
    lines = make_lines(2, 2)
    _fails(lines, 1, 2, 3, 4, error=StorageUnavailable("gone"))
    with pytest.raises(StorageUnavailable):
        await make_processor(lines).run_once()
    assert len(lines.runs) == 1
    assert {one.status for one in lines.operations} == {"pending"}


async def test_a_run_whose_answer_was_lost_is_not_repeated() -> None:
    lines = make_lines(2)
    lines.after = lambda ids: StorageUnavailable("gone", is_in_doubt=True)
    processor = make_processor(lines)
    with pytest.raises(StorageUnavailable):
        await processor.run_once()
    assert not await processor.run_once()
    assert _numbers(lines.stored) == [1, 2]


async def test_what_was_lost_to_another_is_left_to_it() -> None:
    lines = make_lines(2)
    other = UUID(int=99)

    def take_over(ids: Sequence[UUID]) -> QueenError | None:
        lines.operations[0].token = other
        return None

    lines.before = take_over
    assert not await make_processor(lines).run_once()
    first, second = lines.operations
    assert (first.status, first.token) == ("processing", other)
    assert (second.status, second.token) == ("pending", None)


async def test_a_lost_first_half_keeps_the_second_from_running() -> None:
    lines = make_lines(4)
    calls = 0

    def script(ids: Sequence[UUID]) -> QueenError | None:
        nonlocal calls
        calls += 1
        return [StorageRejected("one of them"), ClaimLost("lost")][calls - 1] if calls < 3 else None

    lines.before = script
    assert not await make_processor(lines).run_once()
    assert not lines.stored and len(lines.runs) == 2
    assert {one.status for one in lines.operations} == {"pending"}


async def test_a_stop_in_the_middle_gives_back_what_is_claimed() -> None:
    lines, is_running = make_lines(3), asyncio.Event()
    run = lines.run

    async def hang(ids: Sequence[UUID], token: UUID, *, lock_timeout_ms: int) -> int:
        is_running.set()
        await asyncio.Event().wait()
        return await run(ids, token, lock_timeout_ms=lock_timeout_ms)

    lines.run = hang  # type: ignore[method-assign]
    processor = make_processor(lines)
    await processor.start()
    processor.notify_queued(3)
    await is_running.wait()
    await processor.stop()
    assert {one.status for one in lines.operations} == {"pending"}
    assert not lines.stored


async def test_the_depth_is_measured_although_there_is_always_more_to_run() -> None:
    """Others queue and run as well, so what is counted here drifts away from the truth."""
    lines, looks = make_lines(1), 0
    claim = lines.claim

    async def claim_for_ever(
        worker: str, token: UUID, *, partitions_max: int, items_max: int
    ) -> Sequence[ClaimedOperation]:
        # As a call to a database, it lets others go on.
        await asyncio.to_thread(lines.line, 0)
        lines.operations[:] = make_lines(1).operations
        return await claim(worker, token, partitions_max=partitions_max, items_max=items_max)

    async def count_waiting() -> WaitingOperations:
        nonlocal looks
        looks += 1
        return WaitingOperations(7, 0.0)

    lines.claim = claim_for_ever  # type: ignore[method-assign]
    lines.count_waiting = count_waiting  # type: ignore[method-assign]
    processor = make_processor(lines)
    await processor.start()
    processor.notify_queued(1)
    await wait_until_async(lambda: looks >= 2, timeout_s=30, what="the depth to be measured twice")
    await processor.stop()
    assert len(lines.runs) > 2


async def test_the_loop_goes_on_after_a_failure() -> None:
    lines = make_lines(1)
    errors: list[Exception] = [StorageUnavailable("gone"), RuntimeError("a defect")]
    lines.before = lambda ids: errors.pop(0) if errors else None  # type: ignore[assignment,return-value]
    processor = make_processor(lines)
    await processor.start()
    processor.notify_queued(1)
    await wait_until_async(lambda: lines.stored, timeout_s=30, what="the operation to be stored")
    await processor.stop()


async def test_a_fault_is_held_against_nobody_however_often_it_is_met() -> None:
    lines = make_lines(2, 2)
    _fails(lines, 1, error=StorageFault("no such function", code="42883"))
    processor = make_processor(lines)
    for _ in range(10):
        with pytest.raises(StorageFault):
            await processor.run_once()
    assert len(lines.runs) == 10, "it is not run in parts either"
    assert {(one.status, one.retry_count) for one in lines.operations} == {("pending", 0)}
    lines.before = lambda ids: None
    assert await processor.run_once()
    assert sorted(_numbers(lines.stored)) == [1, 2, 3, 4]
