"""POST /api/v1/transaction."""

from __future__ import annotations

from queenmq.wire.messaging.push import PushItem
from queenmq.wire.shape import Answer, Request


class TransactionOperation(Request):
    """A push of items or one ack."""

    type: str
    items: list[PushItem] | None = None
    transaction_id: str | None = None
    partition_id: str | None = None
    lease_id: str | None = None
    status: str | None = None
    consumer_group: str | None = None
    error: str | None = None


class TransactionRequest(Request):
    """Operations that happen together or not at all."""

    operations: list[TransactionOperation]
    required_leases: list[str] | None = None
    #: The same for every try of one transaction, and another for the next one.
    idempotency_key: str | None = None


class TransactionPush(Answer, tag_field="type", tag="push", omit_defaults=True):
    """A push item of a committed transaction."""

    index: int
    success: bool
    transaction_id: str | None
    message_id: str | None
    partition_id: str
    queue_name: str
    #: The item waits behind operations of its partition.
    operation_id: str | None = None


class TransactionAck(Answer, tag_field="type", tag="ack"):
    """An ack of a committed transaction."""

    index: int
    success: bool
    transaction_id: str
    error: str | None
    dlq: bool


class TransactionAnswer(Answer, omit_defaults=True, kw_only=True):
    """The result of a transaction. One that was refused has an `error` and no results."""

    transaction_id: str
    success: bool
    error: str | None = None
    results: list[TransactionPush | TransactionAck]
