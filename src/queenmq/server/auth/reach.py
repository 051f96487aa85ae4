"""Keeps ids of other tenants out of reach.

An id out of reach is answered like one that does not exist, so callers cannot learn which ids
exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, overload
from uuid import UUID

from queenmq.auth.identity import Identity
from queenmq.engine.requests import AckItem, CompletedLease
from queenmq.errors import NotFound
from queenmq.ids import parse_uuid
from queenmq.server.requests.checks import quote
from queenmq.storage.stores.access.owners import OwnerStore

T = TypeVar("T")
#: The id of no partition and no lease.
NOWHERE = UUID(int=0)
#: Elements of a list to read at once while skipping those out of reach.
_PAGE = 10_000


class Reachable:
    """Finds the queue of an id, for callers that are limited to some queues."""

    def __init__(self, owners: OwnerStore) -> None:
        self._owners = owners

    async def check_ids(self, identity: Identity, params: Mapping[str, Any]) -> None:
        """Raise NotFound for an id in a path that is out of reach."""
        if not identity.is_limited:
            return
        if "partition_id" in params:
            given = parse_uuid(params["partition_id"])
            if given is not None and not await self.has_partition(identity, given):
                raise NotFound(
                    f"Message not found: partition {given} has no message"
                    f" {quote(params.get('transaction_id', ''))}; check both ids"
                )
        if "lease_id" in params:
            given = parse_uuid(params["lease_id"])
            if given is not None and not await self.has_lease(identity, given):
                raise NotFound(
                    f"Lease not found: {given} was completed, taken over or never given; pop again"
                )
        if "operation_id" in params:
            given = parse_uuid(params["operation_id"])
            if given is not None and not await self._has_operation(identity, given):
                raise NotFound(
                    f"operation {given} does not exist; completed ones are kept for an hour"
                )

    async def has_partition(self, identity: Identity, partition_id: UUID) -> bool:
        """Return whether a partition exists and is within the grants."""
        if not identity.is_limited:
            return True
        queues = await self._owners.queues_of([partition_id])
        return partition_id in queues and identity.reaches(queues[partition_id])

    async def has_stream(self, identity: Identity, query_id: UUID) -> bool:
        """Return whether a stream exists and reads a queue within the grants."""
        if not identity.is_limited:
            return True
        queue = await self._owners.queue_of_stream(query_id)
        return queue is not None and identity.reaches(queue)

    async def has_lease(self, identity: Identity, lease_id: UUID) -> bool:
        """Return whether a lease exists and covers only queues within the grants."""
        return await self.hide_leases(identity, [lease_id]) == [lease_id]

    async def _has_operation(self, identity: Identity, operation_id: UUID) -> bool:
        queue = await self._owners.queue_of_operation(operation_id)
        return queue is not None and identity.reaches(queue)

    @overload
    async def hide_acks(self, identity: Identity, acks: list[AckItem]) -> list[AckItem]: ...

    @overload
    async def hide_acks(
        self, identity: Identity, acks: list[CompletedLease]
    ) -> list[CompletedLease]: ...

    async def hide_acks(
        self, identity: Identity, acks: list[AckItem] | list[CompletedLease]
    ) -> list[Any]:
        """Return the acks. Those out of reach get a partition that does not exist."""
        if not identity.is_limited:
            return list(acks)
        queues = await self._owners.queues_of({ack.partition_id for ack in acks})
        return [
            ack
            if ack.partition_id in queues and identity.reaches(queues[ack.partition_id])
            else ack._replace(partition_id=NOWHERE)
            for ack in acks
        ]

    async def hide_leases(self, identity: Identity, leases: Sequence[UUID]) -> list[UUID]:
        """Return the leases. Those out of reach are replaced by one that does not exist."""
        if not identity.is_limited or not leases:
            return list(leases)
        queues = await self._owners.queues_of_leases(leases)
        return [
            one if one in queues and identity.reaches_all(queues[one]) else NOWHERE
            for one in leases
        ]


async def list_within(
    identity: Identity,
    fetch: Callable[[int, int], Awaitable[Sequence[T]]],
    name_of: Callable[[T], str],
    *,
    limit: int,
    offset: int,
) -> Sequence[T]:
    """Return a page of a list by queue, without elements out of the caller's reach."""
    if not identity.is_limited:
        return await fetch(limit, offset)
    kept: list[T] = []
    start = 0
    while len(kept) < offset + limit:
        rows = await fetch(_PAGE, start)
        kept += [row for row in rows if identity.reaches(name_of(row))]
        start += _PAGE
        if len(rows) < _PAGE:
            break
    return kept[offset : offset + limit]


def is_within(identity: Identity, queue: str) -> bool:
    """Return whether a row of a list is within the caller's reach."""
    return not identity.is_limited or identity.reaches(queue)
