"""Acks of a request, checked: completed leases as a whole where they are, else item by item."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from uuid import UUID

from queenmq import wire
from queenmq.engine.requests import AckItem, CompletedLease
from queenmq.ids import parse_uuid
from queenmq.server.requests.checks import (
    check_name,
    check_text,
    check_uuid,
    join_plain,
)

#: Stands for a lease id that is not even a UUID: given, and certainly not the live one.
NO_SUCH_LEASE = UUID(int=0)
_COMPLETED = frozenset((None, "", "completed", "success"))
#: Consumers come back to their partitions; leases are new each time.
_parse_partition = functools.lru_cache(maxsize=16_384)(parse_uuid)


def to_acks(
    acks: Sequence[wire.AckItem], consumer_group: str, *, length_max: int
) -> list[CompletedLease] | list[AckItem]:
    """Return the acks of one group, with every value checked."""
    leases = find_completed(acks, consumer_group, length_max=length_max)
    if leases is not None:
        return leases
    return [to_ack_item(one, consumer_group, length_max=length_max) for one in acks]


def to_ack_item(item: wire.AckItem, consumer_group: str, *, length_max: int) -> AckItem:
    """Return one ack, with every value checked."""
    return AckItem(
        partition_id=check_uuid("partitionId", item.partition_id),
        consumer_group=consumer_group,
        transaction_id=check_name("transactionId", item.transaction_id, length_max=length_max),
        lease_id=(parse_uuid(item.lease_id) or NO_SUCH_LEASE) if item.lease_id else None,
        status=check_text("status", item.status) or "completed",
        error=check_text("error", item.error),
    )


def find_completed(
    acks: Sequence[wire.AckItem], consumer_group: str, *, length_max: int
) -> list[CompletedLease] | None:
    """Return the leases that the acks complete, in order.

    None if an ack does anything else, names no lease, or has a value that needs a full check.
    """
    names: dict[tuple[str, str], list[str]] = {}
    partition_text = lease_text = ""
    mine: list[str] = []
    for ack in acks:
        if ack.status not in _COMPLETED or ack.error is not None or not ack.lease_id:
            return None
        if ack.lease_id != lease_text or ack.partition_id != partition_text:
            partition_text, lease_text = place = (ack.partition_id, ack.lease_id)
            if place in names:
                # Results are in the order of the acks, which these are not.
                return None
            mine = names[place] = []
        mine.append(ack.transaction_id)
    leases = []
    for (partition_text, lease_text), ids in names.items():
        partition_id, lease_id = _parse_partition(partition_text), parse_uuid(lease_text)
        joined = join_plain(ids, length_max=length_max)
        if partition_id is None or lease_id is None or joined is None:
            return None
        leases.append(CompletedLease(partition_id, consumer_group, lease_id, len(ids), joined))
    return leases
