"""The JSON contract: what requests must look like and what answers do look like.

Decoded once, at the edge. Field names are those of the wire. Grown by optional fields only. A
payload stays the bytes it came as: it is never parsed here.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from queenmq.errors import InvalidRequest

T = TypeVar("T")

_NULL = Raw(b"null")
_AT = re.compile(r" - at `(.*)`$")


class PushItem(Struct):
    """One message to push."""

    queue: str
    partition: str | None = None
    payload: Raw = _NULL
    transactionId: str | None = None
    traceId: str | None = None


class PushRequest(Struct):
    """POST /api/v1/push."""

    items: list[PushItem]


class PushQueued(Struct):
    """An item that was stored."""

    index: int
    transaction_id: str
    status: Literal["queued"]
    message_id: str
    partition_id: str
    trace_id: str | None
    queueName: str


class PushDuplicate(Struct):
    """An item whose transaction id its partition already has; message_id is the stored one."""

    index: int
    transaction_id: str
    status: Literal["duplicate"]
    message_id: str
    partition_id: str
    queueName: str


class PushFailed(Struct):
    """An item that was not stored."""

    index: int
    transaction_id: str | None
    status: Literal["failed"]
    error: str
    queueName: str


class PushBuffered(Struct, omit_defaults=True):
    """An item that was accepted and is stored later: as an operation, or from the spool."""

    index: int
    status: str
    queue: str
    partition: str
    transactionId: str | None = None
    operationId: str | None = None
    queuePosition: int | None = None
    estimatedWait: str | None = None
    reason: str | None = None


class AckItem(Struct):
    """One message to settle."""

    transactionId: str
    partitionId: str
    leaseId: str | None = None
    status: str | None = None
    error: str | None = None


class AckRequest(AckItem):
    """POST /api/v1/ack."""

    consumerGroup: str | None = None


class AckBatchRequest(Struct):
    """POST /api/v1/ack/batch."""

    acknowledgments: list[AckItem]
    consumerGroup: str | None = None
    next: str | None = None


class AckAnswer(Struct):
    """What became of one ack."""

    index: int
    transactionId: str
    success: bool
    error: str | None
    queueName: str | None
    partitionName: str | None
    leaseReleased: bool
    dlq: bool


class RenewRequest(Struct):
    """POST /api/v1/lease/:leaseId/extend."""

    seconds: Annotated[int, Meta(ge=1, le=86_400)] = 60


class TransactionOperation(Struct):
    """A push of items or one ack."""

    type: str
    items: list[PushItem] | None = None
    transactionId: str | None = None
    partitionId: str | None = None
    leaseId: str | None = None
    status: str | None = None
    consumerGroup: str | None = None
    error: str | None = None


class TransactionRequest(Struct):
    """POST /api/v1/transaction."""

    operations: list[TransactionOperation]
    requiredLeases: list[str] | None = None
    #: The same for every try of one transaction, and another for the next one.
    idempotencyKey: str | None = None


class TransactionPush(Struct, tag_field="type", tag="push", omit_defaults=True):
    """A push item of a committed transaction."""

    index: int
    success: bool
    transactionId: str | None
    messageId: str | None
    partitionId: str
    queueName: str
    #: The item waits behind operations of its partition.
    operationId: str | None = None


class TransactionAck(Struct, tag_field="type", tag="ack"):
    """An ack of a committed transaction."""

    index: int
    success: bool
    transactionId: str
    error: str | None
    dlq: bool


#: A number that a PostgreSQL integer holds.
Natural = Annotated[int, Meta(ge=0, le=2_147_483_647)]


class QueueOptions(Struct):
    """Options of a queue; what a request leaves out falls back to these defaults."""

    leaseTime: Natural = 300
    retryLimit: Natural = 3
    retryDelay: Natural = 0
    priority: Annotated[int, Meta(ge=-2_147_483_648, le=2_147_483_647)] = 0
    maxSize: Annotated[int, Meta(ge=0, le=2**53)] = 0
    ttl: Natural = 3600
    deadLetterQueue: bool = False
    dlqAfterMaxRetries: bool = False
    delayedProcessing: Natural = 0
    windowBuffer: Natural = 0
    retentionSeconds: Natural = 0
    completedRetentionSeconds: Natural = 0
    retentionEnabled: bool = False
    encryptionEnabled: bool = False
    maxWaitTimeSeconds: Natural = 0
    onPoison: Literal["dlq", "block", "skip"] = "dlq"
    onFailedOperation: Literal["stop", "continue"] = "stop"
    archiveBeforeDelete: bool = False
    ackHistory: bool = False


class ConfigureRequest(Struct):
    """POST /api/v1/configure."""

    queue: str
    namespace: str | None = None
    task: str | None = None
    options: QueueOptions | None = None


class SwitchRequest(Struct):
    """POST /api/v1/system/maintenance and /api/v1/system/maintenance/pop."""

    enabled: bool


class SeekRequest(Struct):
    """POST /api/v1/consumer-groups/{group}/queues/{queue}/seek; one of the two."""

    toEnd: bool = False
    timestamp: str | None = None


class GroupStartRequest(Struct):
    """POST /api/v1/consumer-groups/{group}/subscription."""

    subscriptionTimestamp: str


class BuryRequest(Struct):
    """POST /api/v1/messages/{partitionId}/{transactionId}/dlq."""

    error: str | None = None


class LetterRetryRequest(Struct):
    """POST /api/v1/dlq/retry."""

    queue: str | None = None
    consumerGroup: str | None = None
    partition: str | None = None
    olderThanSeconds: Natural | None = None
    limit: int = 100


class TraceRequest(Struct):
    """POST /api/v1/traces."""

    transactionId: str
    partitionId: str
    data: Raw
    consumerGroup: str | None = None
    eventType: str | None = None
    traceNames: list[str] | str | None = None


encode = msgspec.json.Encoder().encode


_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def decode(body: bytes, wanted: type[T]) -> T:
    """The request in a body; InvalidRequest says in one sentence what is wrong with it."""
    if not body:
        raise InvalidRequest("Empty request body: send a JSON object")
    decoder = _decoders.get(wanted)
    if decoder is None:
        decoder = _decoders[wanted] = msgspec.json.Decoder(wanted)
    try:
        # Payloads are passed on unparsed, so nothing else would notice broken text in them.
        if not body.isascii():
            body.decode()
        result: T = decoder.decode(body)
        return result
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"Invalid JSON: the body is not UTF-8 at byte {error.start}; encode it as UTF-8"
        ) from None
    except RecursionError:
        raise InvalidRequest(
            "Invalid JSON: the body is nested too deeply; stay below 900 levels"
        ) from None
    except msgspec.ValidationError as error:
        raise InvalidRequest(_sentence(str(error))) from None
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"Invalid JSON: {error}; send a well-formed JSON object") from None


def _sentence(text: str) -> str:
    """`Expected X, got Y - at $.a[0].b` as `a[0].b must be X, got Y`."""
    at = _AT.search(text)
    field = at.group(1).removeprefix("$").removeprefix(".") if at else ""
    text = _AT.sub("", text).replace("`", "")
    if text.startswith("Object missing required field "):
        name = text.removeprefix("Object missing required field ")
        return f"{field + '.' if field else ''}{name} is required"
    subject = field or "the body"
    for start in ("Expected ", "Invalid "):
        if text.startswith(start):
            rest = text.removeprefix(start)
            return (
                f"{subject} must be {rest}"
                if start == "Expected "
                else f"{subject} is invalid: {rest}"
            )
    return f"{subject}: {text}"
