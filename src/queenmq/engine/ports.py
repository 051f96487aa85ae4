"""What the engine needs from the world: a message store. Private to the package; reshape freely."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from queenmq.engine.operation import (
    AckItem,
    AckResult,
    Fetched,
    LeaseRelease,
    PartitionKey,
    PartitionRef,
    PopCandidate,
    PopGrant,
    PushItems,
    Renewal,
    ResolveAsk,
    Resolved,
    Scope,
    Subscription,
    TransactionOutcome,
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
        self, items: PushItems, refs: Sequence[PartitionRef], *, lock_timeout_ms: int
    ) -> tuple[Sequence[str | None], str]:
        """Store all items or none; the ids and outcome letters in item order."""

    async def find_busy_partitions(self, partition_ids: Sequence[UUID]) -> set[UUID]:
        """The partitions whose row another transaction holds."""

    async def subscribe_groups(self, starts: Sequence[tuple[Scope, str, Subscription]]) -> None:
        """Remember where groups start, the first time each is seen."""

    async def pop_sm_resolve(
        self, asks: Sequence[ResolveAsk], *, limit: int, budget_ms: int
    ) -> Sequence[Resolved | None]:
        """What each place has to deliver; None for those that time did not suffice for."""

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

    async def pop_sm_release(self, releases: Sequence[LeaseRelease]) -> None:
        """End leases before their time."""

    async def ack_messages(
        self, items: Sequence[AckItem], *, lock_timeout_ms: int
    ) -> list[AckResult]:
        """Settle messages; one result per item, in order."""

    async def renew_lease(self, lease_id: UUID, *, seconds: int) -> Renewal:
        """Extend a live lease."""

    async def run_transaction(
        self,
        items: PushItems,
        refs: Sequence[PartitionRef],
        acks: Sequence[AckItem],
        required_leases: Sequence[UUID],
        *,
        lock_timeout_ms: int,
    ) -> TransactionOutcome:
        """Push and ack in one transaction."""
