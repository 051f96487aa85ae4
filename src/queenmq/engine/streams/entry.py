"""One cycle on its way through a call, and which cycles may share one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.engine.calls.entry import Answerable
from queenmq.engine.requests import PartitionRef
from queenmq.engine.streams.requests import CycleItems, CycleOutcome
from queenmq.errors import PartitionBusy

#: A partition, and in it the cursor of a group, the state of a query, or (`PUSHES`) itself.
Key = tuple[UUID, str]
PUSHES = ""
#: Begins the second part of a query's key. No group has it, because names hold no NUL.
_QUERY = "\0"


def pair_key(query_id: UUID, partition_id: UUID) -> Key:
    """Return the key of a query's state in a partition."""
    return partition_id, f"{_QUERY}{query_id}"


def pair_of(key: Key) -> tuple[UUID, UUID] | None:
    """Return the query and partition of a key, or None if it is a key of something else."""
    partition_id, what = key
    return (UUID(what[1:]), partition_id) if what.startswith(_QUERY) else None


class CycleEntry(Answerable[CycleOutcome]):
    """One cycle until it is answered."""

    __slots__ = (
        "attempts",
        "cycle",
        "deadline_ms",
        "diverts",
        "keys",
        "own_keys",
        "refs",
        "weight",
    )

    def __init__(self, cycle: CycleItems, refs: list[PartitionRef], *, wait_ms: int) -> None:
        self.cycle = cycle
        self.deadline_ms = now_ms() + wait_ms
        self.diverts = 0
        self.attempts = 0
        self.weight = 1 + len(cycle.ops) + len(cycle.pushes.payloads)
        self.future = asyncio.get_running_loop().create_future()
        #: No two cycles of a call have one of these in common.
        self.own_keys: set[Key] = {
            pair_key(cycle.query_id, cycle.partition_id),
            (cycle.partition_id, cycle.consumer_group),
        }
        self.set_refs(refs)

    def set_refs(self, refs: list[PartitionRef]) -> None:
        """Aim the pushes at these partitions."""
        self.refs = refs
        self.keys: set[Key] = self.own_keys | {(ref.partition_id, PUSHES) for ref in refs}

    def still_held(self, key: Key) -> PartitionBusy:
        return PartitionBusy(
            f"partition {key[0]} is held by another transaction; nothing was changed, try again"
        )


def split_rounds(entries: Iterable[CycleEntry]) -> list[list[CycleEntry]]:
    """Cut cycles into calls, in order, so that no call has two of one pair or cursor."""
    rounds: list[list[CycleEntry]] = []
    taken: set[Key] = set()
    for entry in entries:
        if not rounds or taken & entry.own_keys:
            rounds.append([])
            taken = set()
        rounds[-1].append(entry)
        taken |= entry.own_keys
    return rounds
