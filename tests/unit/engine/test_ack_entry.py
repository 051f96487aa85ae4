"""Ack requests become calls: whole leases apart from the rest, one lease asked for once."""

from __future__ import annotations

import asyncio
from uuid import UUID

from queenmq.engine.ack.entry import AckEntry, CompletedCall, split_completed
from queenmq.engine.requests import AckItem, AckResult, CompletedLease

_LEASE = UUID(int=9)


def completed(place: int, *names: str) -> CompletedLease:
    return CompletedLease(UUID(int=place), "g", _LEASE, len(names), "\n".join(names))


def item(place: int, name: str, status: str = "failed") -> AckItem:
    return AckItem(UUID(int=place), "g", name, _LEASE, status, None)


def entry(*acks: CompletedLease | AckItem) -> AckEntry:
    future: asyncio.Future[list[AckResult]] = asyncio.get_running_loop().create_future()
    return AckEntry(acks, future, wait_ms=1_000)  # type: ignore[arg-type]


def result(name: str) -> AckResult:
    return AckResult(True, None, name, None, True, False, False)


async def test_a_completed_lease_goes_with_the_failure_it_shares_a_cursor_with() -> None:
    apart, shared, failure = entry(completed(1, "a")), entry(completed(2, "b")), entry(item(2, "c"))
    assert split_completed([apart, shared, failure]) == ([apart], [shared, failure])
    assert split_completed([apart, shared]) == ([apart, shared], [])
    assert split_completed([failure]) == ([], [failure])


async def test_messages_of_a_lease_can_be_taken_one_by_one() -> None:
    both = entry(completed(1, "a", "b"), completed(2, "c"))
    assert both.weight == 3
    assert both.items == [
        item(1, "a", "completed"),
        item(1, "b", "completed"),
        item(2, "c", "completed"),
    ]


async def test_requests_of_one_lease_are_joined_and_get_their_own_results_back() -> None:
    first, second = entry(completed(1, "a", "b"), completed(2, "x")), entry(completed(1, "c"))
    call = CompletedCall([first, second])
    assert call.leases == [completed(1, "a", "b", "c"), completed(2, "x")]
    call.answer([[result("a"), result("b"), result("c")], result("x")])
    assert [one.queue_name for one in first.future.result()] == ["a", "b", "x"]
    assert [one.queue_name for one in second.future.result()] == ["c"]


async def test_one_result_stands_for_all_messages_of_a_lease() -> None:
    only = entry(completed(1, "a", "b"))
    call = CompletedCall([only])
    call.answer([result("q")])
    assert only.future.result() == [result("q")] * 2
