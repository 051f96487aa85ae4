"""What the engine needs from the world: a message store. Private to the package; reshape freely."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol
from uuid import UUID

from queenmq.engine.requests import (
    AckItem,
    AckResult,
    ClaimedOperation,
    Fetched,
    LeaseRelease,
    News,
    OnwardAsk,
    Page,
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
    Subscription,
    TransactionItems,
    TransactionOutcome,
    WaitingOperations,
)


class MessageStore(Protocol):
    """Every database verb of the hot path. Methods raise the errors of `queenmq.errors` only."""

    async def ensure_partitions(
        self, keys: Sequence[PartitionKey], *, lock_timeout_ms: int
    ) -> list[PartitionRef]:
        """The partitions with these names, made where they do not exist."""

    async def find_partitions(self, keys: Sequence[PartitionKey]) -> list[PartitionRef]:
        """Those of the named partitions that exist."""

    async def push_messages(
        self, call: PushCall, *, queue_max: int, looks_first: bool, lock_timeout_ms: int
    ) -> Pushed:
        """Store or queue all items or none; look for operations first where some are likely."""

    async def find_busy_partitions(self, partition_ids: Sequence[UUID]) -> set[UUID]:
        """The partitions whose row another transaction holds."""

    async def find_publishing(self, partition_ids: Sequence[UUID]) -> set[UUID]:
        """The partitions whose row a publication of Spark holds: pushes are queued behind it."""

    async def find_busy_cursors(self, keys: Sequence[tuple[UUID, str]]) -> set[tuple[UUID, str]]:
        """The (partition, group) pairs whose cursor another transaction holds."""

    async def find_busy_leases(self, lease_ids: Sequence[UUID]) -> set[UUID]:
        """The leases with a cursor that another transaction holds."""

    async def subscribe_groups(self, starts: Sequence[tuple[Scope, str, Subscription]]) -> None:
        """Remember where groups start, the first time each is seen."""

    async def pop_sm_resolve(
        self, asks: Sequence[ResolveAsk], *, limit: int, budget_ms: int
    ) -> Sequence[Resolved | None]:
        """What each place has to deliver; None for those that time did not suffice for."""

    async def search_onwards(
        self, asks: Sequence[OnwardAsk], *, limit: int, budget_ms: int
    ) -> Sequence[Page | None]:
        """The next page of each queue; None for those that time did not suffice for."""

    async def find_news(self, queues: Sequence[str], horizons: Sequence[str]) -> Sequence[News]:
        """What has happened in each queue since its horizon, in order."""

    async def has_pending_messages(self, asks: Sequence[ResolveAsk]) -> Sequence[bool]:
        """Whether each place has anything to deliver."""

    async def pop_messages_batch(
        self, candidates: Sequence[PopCandidate], *, apart_count: int
    ) -> list[PopGrant]:
        """Lease and fetch for many requests; a candidate without an answer was locked just then."""

    async def pop_sm_fetch(
        self, consumer_group: str, grants: Sequence[PopGrant]
    ) -> dict[UUID, Fetched]:
        """Read what was leased apart, by partition; one that is gone has no result."""

    async def pop_sm_release(
        self, releases: Sequence[LeaseRelease], *, lock_timeout_ms: int
    ) -> None:
        """End leases before their time."""

    async def ack_messages(
        self, items: Sequence[AckItem], *, lock_timeout_ms: int
    ) -> list[AckResult]:
        """Settle messages; one result per item, in order."""

    async def renew_leases(
        self, lease_ids: Sequence[UUID], seconds: Sequence[int], *, lock_timeout_ms: int
    ) -> list[Renewal]:
        """Extend live leases; one result each, in order."""

    async def commit_transaction(
        self,
        items: TransactionItems,
        refs: Sequence[PartitionRef],
        *,
        queue_max: int,
        lock_timeout_ms: int,
    ) -> TransactionOutcome:
        """Push and ack in one transaction, unless that was done before."""


class OperationStore(Protocol):
    """The operation queue as whoever runs it sees it."""

    async def claim(
        self, worker: str, token: UUID, *, partitions_max: int, items_max: int
    ) -> Sequence[ClaimedOperation]:
        """Take operations to run, in the order of each partition."""

    async def run(self, ids: Sequence[UUID], token: UUID, *, lock_timeout_ms: int) -> int:
        """Store what they push and complete them, all or none; the number of messages."""

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
        """Give back what was not run, noting what is wrong with one of them."""

    async def count_waiting(self) -> WaitingOperations:
        """How many there are to run."""


class KeptPush(Protocol):
    """A push request that was kept on disk; no items when it cannot be read."""

    @property
    def items(self) -> PushItems | None: ...

    @property
    def position(self) -> Hashable:
        """Where it is; no other request has the same."""


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
        """Requests that are not drained."""

    @property
    def is_closing(self) -> bool:
        """Whether the last of them are being drained."""

    @property
    def is_stuck(self) -> bool:
        """Whether a fault of the database keeps them from being drained."""

    async def append(self, items: PushItems) -> Sequence[str]:
        """Keep a request; it is safe when this returns. The transaction ids of its items."""

    async def try_lead(self) -> bool:
        """Become the one process that drains, if there is none."""

    async def release_lead(self) -> None:
        """Let another one drain."""

    async def read(self, *, records_max: int, bytes_max: int) -> KeptPushes:
        """The next requests to drain."""

    async def advance(self, end: Any) -> None:
        """Requests up to here are drained."""

    async def tell(self, *, is_closing: bool = False, is_stuck: bool = False) -> None:
        """Tell all processes that the end is near, that nothing moves, or neither."""

    async def set_aside(self, record: Any, reason: str) -> None:
        """Keep a request that cannot be drained, apart from the others."""
