"""One ack request on its way through a call, and how several become one call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import cast
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.engine.calls.entry import Answerable
from queenmq.engine.requests import AckItem, AckResult, CompletedLease
from queenmq.errors import PartitionBusy

#: A partition and a consumer group.
Pair = tuple[UUID, str]


class AckEntry(Answerable[list[AckResult]]):
    """One ack request on its way through a call."""

    __slots__ = (
        "_items",
        "arrived_ms",
        "attempts",
        "deadline_ms",
        "diverts",
        "keys",
        "leases",
        "weight",
    )

    def __init__(
        self,
        acks: Sequence[AckItem] | Sequence[CompletedLease],
        future: asyncio.Future[list[AckResult]],
        *,
        wait_ms: int,
    ) -> None:
        self.arrived_ms = now_ms()
        self.deadline_ms = self.arrived_ms + wait_ms
        self.diverts = 0
        self.attempts = 0
        self.future = future
        self.keys: set[Pair] = {(one.partition_id, one.consumer_group) for one in acks}
        #: Empty for a request that says more than that messages are completed.
        self.leases: Sequence[CompletedLease] = ()
        self._items: Sequence[AckItem] = ()
        if isinstance(acks[0], CompletedLease):
            self.leases = cast(Sequence[CompletedLease], acks)
            self.weight = sum([one.messages for one in self.leases])
        else:
            self._items = cast(Sequence[AckItem], acks)
            self.weight = len(acks)

    @property
    def items(self) -> Sequence[AckItem]:
        """Return the messages one by one, in request order."""
        return self._items or list(list_items(self.leases))

    def still_held(self, key: Pair) -> PartitionBusy:
        partition_id, consumer_group = key
        return PartitionBusy(
            f"the cursor of group {consumer_group!r} on partition {partition_id} is held by another"
            " transaction; nothing was changed, try again"
        )


def list_items(leases: Sequence[CompletedLease]) -> Iterator[AckItem]:
    """Yield the messages of completed leases one by one."""
    for lease in leases:
        for name in lease.names.split("\n"):
            yield AckItem(
                lease.partition_id, lease.consumer_group, name, lease.lease_id, "completed", None
            )


def split_completed(batch: Sequence[AckEntry]) -> tuple[list[AckEntry], list[AckEntry]]:
    """Split off the requests that only complete messages of leases.

    Acks of one cursor must be in one call. A request that shares a cursor with one of the other
    requests therefore goes with those.
    """
    others = [entry for entry in batch if not entry.leases]
    if not others:
        return list(batch), []
    shared = {key for entry in others for key in entry.keys}
    completed = [entry for entry in batch if entry.leases and shared.isdisjoint(entry.keys)]
    if len(completed) + len(others) < len(batch):
        chosen = {id(entry) for entry in completed}
        others = [entry for entry in batch if id(entry) not in chosen]
    return completed, others


class CompletedCall:
    """Merges the completed leases of several requests into one call."""

    def __init__(self, entries: Sequence[AckEntry]) -> None:
        self._entries = entries
        #: Which of `leases` each lease of each request is part of, in order.
        self._places: list[int] = []
        places: dict[tuple[UUID, str, UUID], int] = {}
        parts: list[list[CompletedLease]] = []
        for entry in entries:
            for lease in entry.leases:
                place = places.setdefault(lease[:3], len(parts))
                self._places.append(place)
                if place == len(parts):
                    parts.append([lease])
                else:
                    parts[place].append(lease)
        self.leases = [same[0] if len(same) == 1 else _join(same) for same in parts]

    def answer(self, results: Sequence[AckResult | list[AckResult]]) -> None:
        """Give each request its own results; see MessageStore.ack_completed."""
        if len(self._entries) == len(self.leases) == 1:
            self._entries[0].answer(_spread(results[0], self.leases[0].messages))
            return
        places = iter(self._places)
        taken = [0] * len(self.leases)
        for entry in self._entries:
            mine: list[AckResult] = []
            for lease in entry.leases:
                place = next(places)
                result, begin = results[place], taken[place]
                taken[place] = begin + lease.messages
                mine += (
                    [result] * lease.messages
                    if isinstance(result, AckResult)
                    else result[begin : begin + lease.messages]
                )
            entry.answer(mine)


def _spread(result: AckResult | list[AckResult], count: int) -> list[AckResult]:
    return [result] * count if isinstance(result, AckResult) else result


def _join(same: Sequence[CompletedLease]) -> CompletedLease:
    """Return parts of one lease as one."""
    return CompletedLease(
        *same[0][:3], sum(one.messages for one in same), "\n".join(one.names for one in same)
    )
