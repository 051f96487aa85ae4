"""The values of streams: cycles, and the store's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.requests import AckItem, PartitionRef, PushItems, PushOutcome


class StateOp(NamedTuple):
    """One row of state to put; without a value, to delete."""

    key: str
    value: str | None
    #: The number `windowEnd` of the value, if it has one.
    window_end: float | None


@dataclass(frozen=True, slots=True)
class CycleItems:
    """One cycle of a query in one partition."""

    query_id: UUID
    partition_id: UUID
    consumer_group: str
    #: No key stands twice.
    ops: Sequence[StateOp]
    pushes: PushItems
    ack: AckItem | None
    keeps_lease: bool
    #: The version of the state that the client has seen; None if it does not say.
    version: int | None
    #: Digest of everything above. It recognises a cycle that is sent again.
    digest: UUID

    @property
    def seed(self) -> UUID | None:
        """Return the seed of generated ids; None if a repeat may be intended."""
        has_lease = self.ack is not None and self.ack.lease_id is not None
        return self.digest if has_lease else None


class CycleCall(NamedTuple):
    """Cycles of one or more clients for one call, and the partitions of their pushes."""

    cycles: Sequence[CycleItems]
    refs: Sequence[Sequence[PartitionRef]]


class CycleRow(NamedTuple):
    """The store's answer about one cycle. See commit_cycles."""

    error: str | None
    is_repeat: bool
    queue_name: str | None
    message_ids: Sequence[str | None] | None
    outcomes: Sequence[ItemOutcome] | None
    positions: Sequence[int | None] | None
    lease_released: bool | None
    dlq: bool | None
    partition_name: str | None
    has_more: bool
    state_bytes: int


class CycleOutcome(NamedTuple):
    """A cycle that was committed, now or before."""

    row: CycleRow
    pushed: PushOutcome


class Registration(NamedTuple):
    """A registered query. Its hash differs from the given one if that was not accepted."""

    #: None: the name belongs to a query of another queue, which was left alone.
    query_id: UUID | None
    is_fresh: bool
    is_reset: bool
    config_hash: str | None


class StateAsk(NamedTuple):
    """A read of state."""

    query_id: UUID
    partition_id: UUID
    keys: Sequence[str] | None
    prefix: str | None
    ripe_at: float | None


class StateRows(NamedTuple):
    """State as it was read; no version means that there is no such query."""

    version: int | None
    #: The inside of a JSON array.
    rows: str | None
