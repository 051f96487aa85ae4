"""The ports of the engine: a message store, an operation store, a journal."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol
from uuid import UUID

from queenmq.engine.requests import (
    AckItem,
    AckResult,
    ClaimedOperation,
    CompletedLease,
    Fetched,
    KnownPush,
    LeaseRelease,
    News,
    PartitionKey,
    PartitionRef,
    PopCandidate,
    PopGrant,
    PushCall,
    Pushed,
    PushItems,
    Renewal,
    ResolveAsk,
    Resolved,
    Scope,
    Slice,
    Subscription,
    TransactionItems,
    TransactionOutcome,
    WaitingOperations,
    WalkAsk,
)


class MessageStore(Protocol):
    """The database calls of the hot path. Methods raise the errors of `queenmq.errors` only."""

    async def ensure_partitions(
        self, keys: Sequence[PartitionKey], *, lock_timeout_ms: int
    ) -> list[PartitionRef]:
        """Return the partitions with these names. Create those that do not exist."""

    async def find_partitions(
        self, keys: Sequence[PartitionKey], *, limit_ms: int | None = None
    ) -> list[PartitionRef]:
        """Return those of the named partitions that exist."""

    async def push_messages(
        self, call: PushCall, *, queue_max: int, checks_operations_first: bool, lock_timeout_ms: int
    ) -> Pushed:
        """Store or queue all items or none. Check for queued pushes first if some are likely."""

    async def find_push_keys(self, keys: Sequence[UUID]) -> list[KnownPush]:
        """Return the push requests with these keys that were made before."""

    async def find_busy_partitions(self, partition_ids: Sequence[UUID]) -> set[UUID]:
        """Return the partitions whose row another transaction holds."""

    async def find_publishing(self, partition_ids: Sequence[UUID]) -> set[UUID]:
        """Return the partitions whose row a Spark publication holds. Pushes queue behind it."""

    async def find_busy_cursors(self, keys: Sequence[tuple[UUID, str]]) -> set[tuple[UUID, str]]:
        """Return the (partition, group) pairs whose cursor another transaction holds."""

    async def find_busy_leases(self, lease_ids: Sequence[UUID]) -> set[UUID]:
        """Return the leases with a cursor that another transaction holds."""

    async def subscribe_groups(self, starts: Sequence[tuple[Scope, str, Subscription]]) -> None:
        """Remember where groups start, the first time each is seen."""

    async def pop_sm_resolve(
        self, asks: Sequence[ResolveAsk], *, limit: int, limit_ms: int
    ) -> Sequence[Resolved | None]:
        """Return what each place can deliver, or None where time ran out."""

    async def walk_partitions(
        self, asks: Sequence[WalkAsk], *, limit: int, limit_ms: int
    ) -> Sequence[Slice | None]:
        """Return the next slice of each queue, or None where time ran out."""

    async def find_news(
        self, queues: Sequence[str], horizons: Sequence[str], *, limit_ms: int
    ) -> Sequence[News]:
        """Return the news of each queue since its horizon, in order."""

    async def has_pending_messages(
        self, asks: Sequence[ResolveAsk], *, limit_ms: int
    ) -> Sequence[bool]:
        """Return whether each place has anything to deliver."""

    async def pop_messages_batch(
        self, candidates: Sequence[PopCandidate], *, apart_count: int
    ) -> list[PopGrant]:
        """Lease and fetch for many requests. A candidate without an answer was locked."""

    async def pop_sm_fetch(
        self, consumer_group: str, grants: Sequence[PopGrant]
    ) -> dict[UUID, Fetched]:
        """Read leased messages by partition. A partition that is gone has no result."""

    async def return_taken(self, consumer_group: str, grants: Sequence[PopGrant]) -> set[UUID]:
        """Undo acks of pops where nothing has happened since. Return the partitions undone."""
        ...

    async def pop_sm_release(
        self, releases: Sequence[LeaseRelease], *, lock_timeout_ms: int
    ) -> None:
        """End leases before they expire."""

    async def ack_messages(
        self, items: Sequence[AckItem], *, lock_timeout_ms: int
    ) -> list[AckResult]:
        """Ack messages. Return one result per item, in order."""

    async def ack_completed(
        self, leases: Sequence[CompletedLease], *, lock_timeout_ms: int
    ) -> list[AckResult | list[AckResult]]:
        """Ack completed messages of distinct leases.

        Return one element per lease, in order: one result for all its messages, or one for each.
        """

    async def renew_leases(
        self, lease_ids: Sequence[UUID], seconds: Sequence[int], *, lock_timeout_ms: int
    ) -> list[Renewal]:
        """Extend live leases. Return one result each, in order."""

    async def commit_transaction(
        self,
        items: TransactionItems,
        refs: Sequence[PartitionRef],
        *,
        queue_max: int,
        lock_timeout_ms: int,
    ) -> TransactionOutcome:
        """Push and ack in one transaction, unless it was committed before."""


class OperationStore(Protocol):
    """The operation queue as its runner sees it."""

    async def claim(
        self, worker: str, token: UUID, *, partitions_max: int, items_max: int
    ) -> Sequence[ClaimedOperation]:
        """Claim operations to run, in the order of each partition."""

    async def run(self, ids: Sequence[UUID], token: UUID, *, lock_timeout_ms: int) -> int:
        """Store the messages of all operations or none. Return the number of messages."""

    async def release(
        self,
        ids: Sequence[UUID],
        token: UUID,
        *,
        failed_id: UUID | None = None,
        error: str | None = None,
        is_counted: bool = False,
        delay_ms: int = 0,
    ) -> None:
        """Release operations that were not run. Note the error of one of them."""

    async def count_waiting(self) -> WaitingOperations:
        """Return how many operations wait."""


class KeptPush(Protocol):
    """A push request that was kept on disk. It has no items if it cannot be read."""

    @property
    def items(self) -> PushItems | None: ...

    @property
    def position(self) -> Hashable:
        """Return where the request is. No other request has the same position."""

    @property
    def accepted_ms(self) -> int:
        """Return the Unix time at which it was accepted, or 0 if unknown."""


class KeptPushes(Protocol):
    """Requests as they were appended, and where they end."""

    @property
    def records(self) -> Sequence[KeptPush]: ...

    @property
    def end(self) -> Any: ...


class PushJournal(Protocol):
    """Requests on disk, in the order in which all processes of the broker appended them."""

    @property
    def pending(self) -> int:
        """Return how many requests are not drained."""

    @property
    def is_closing(self) -> bool:
        """Return whether the last of them are being drained."""

    @property
    def is_stuck(self) -> bool:
        """Return whether a fault of the database keeps them from being drained."""

    async def append(self, items: PushItems) -> Sequence[str]:
        """Store a request durably. Return the transaction ids of its items."""

    async def try_lead(self) -> bool:
        """Become the process that drains, unless another one is."""

    async def release_lead(self) -> None:
        """Let another process drain."""

    async def read(self, *, records_max: int, bytes_max: int) -> KeptPushes:
        """Return the next requests to drain."""

    async def advance(self, end: Any) -> None:
        """Mark requests up to here as drained."""

    async def announce(self, *, is_closing: bool = False, is_stuck: bool = False) -> None:
        """Announce to all processes that the drain is closing, is stuck, or neither."""

    async def set_aside(self, record: Any, reason: str) -> None:
        """Set a request aside that cannot be drained."""
