"""POST /api/v1/ack, /api/v1/ack/batch and /api/v1/lease/{leaseId}/extend."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from queenmq.wire.messaging.pop import PopAnswer
from queenmq.wire.shape import Answer, Request


class AckItem(Request):
    """One message to ack."""

    transaction_id: str
    partition_id: str
    lease_id: str | None = None
    status: str | None = None
    error: str | None = None


class AckRequest(AckItem):
    """One message to ack, and the group that popped it."""

    consumer_group: str | None = None


class AckBatchRequest(Request):
    """Messages of one group to ack, and the pop that follows."""

    acknowledgments: list[AckItem]
    consumer_group: str | None = None
    next: str | None = None


class AckResult(Answer):
    """The result of an ack. `success` is also true for an ack that had taken effect before."""

    index: int
    transaction_id: str
    success: bool
    error: str | None = None
    queue_name: str | None = None
    partition_name: str | None = None
    lease_released: bool = False
    dlq: bool = False


class AckedAndPopped(Answer):
    """Results of acks, and of the pop that follows."""

    results: list[AckResult]
    next: PopAnswer | None = None


class RenewRequest(Request):
    """The length of the lease from now on. It is never shortened."""

    seconds: Annotated[int, Meta(ge=1, le=86_400)] = 60


class LeaseExtended(
    Answer,
    rename={"lease_id": "leaseId", "new_expires_at": "newExpiresAt", "expires_at": "expiresAt"},
):
    """A lease that was extended. The expiry has all names that clients expect."""

    success: bool
    lease_id: str
    new_expires_at: str
    lease_expires_at: str
    expires_at: str
