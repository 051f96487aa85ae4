"""GET /api/v1/pop and the routes below it."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from queenmq.wire.shape import Answer

T = TypeVar("T")


class PoppedMessage(Answer, Generic[T], kw_only=True):
    """A message as a pop delivers it."""

    id: str
    transaction_id: str
    data: T
    partition_id: str
    queue: str = ""
    partition: str = ""
    lease_id: str = ""
    consumer_group: str = "__QUEUE_MODE__"
    trace_id: str | None = None
    created_at: str = ""
    retry_count: int = 0
    producer_sub: str | None = None


class PopAnswer(Answer):
    """Messages of one lease. The database writes the messages, the route writes the rest."""

    success: bool
    queue: str
    partition: str
    partition_id: str
    lease_id: str
    consumer_group: str
    partitions_claimed: int
    messages: list[PoppedMessage[Any]]
    lease_expires_at: str | None = None
