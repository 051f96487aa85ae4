"""POST /api/v1/push."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Raw, Struct, field

from queenmq.wire.shape import Answer, Request

_NULL = Raw(b"null")


def make_null() -> Raw:
    """Return null. It is a factory, because a schema cannot show a Raw."""
    return _NULL


class PushItem(Request):
    """One message to push. The payload stays the bytes it came as."""

    queue: str
    partition: str | None = None
    payload: Raw = field(default_factory=make_null)
    transaction_id: str | None = None
    trace_id: str | None = None


class PushRequest(Request):
    """Messages to push, in order. A request that is sent again with its key is stored once."""

    items: list[PushItem]
    idempotency_key: str | None = None


class PushQueued(Struct, rename={"queue_name": "queueName"}):
    """An item that was stored."""

    index: int
    transaction_id: str
    status: Literal["queued"]
    message_id: str
    partition_id: str
    trace_id: str | None
    queue_name: str


class PushDuplicate(Struct, rename={"queue_name": "queueName"}):
    """An item whose transaction id is already stored. message_id is that of the stored message."""

    index: int
    transaction_id: str
    status: Literal["duplicate"]
    message_id: str
    partition_id: str
    queue_name: str


class PushRefused(Struct, rename={"queue_name": "queueName"}):
    """An item that was not stored."""

    index: int
    transaction_id: str | None
    status: Literal["failed"]
    error: str
    queue_name: str


class PushBuffered(Struct, rename="camel", omit_defaults=True):
    """An item that was accepted and is stored later: as an operation, or from the spool."""

    index: int
    status: Literal["buffered"]
    queue: str
    partition: str
    transaction_id: str | None = None
    operation_id: str | None = None
    queue_position: int | None = None
    estimated_wait: str | None = None
    reason: str | None = None


#: What the broker writes for an item.
PushAnswer = PushQueued | PushDuplicate | PushRefused | PushBuffered


class PushResult(
    Answer,
    kw_only=True,
    rename={
        "queue_name": "queueName",
        "given_id": "transactionId",
        "operation_id": "operationId",
        "queue_position": "queuePosition",
        "estimated_wait": "estimatedWait",
    },
):
    """The result of one pushed item, whichever of the four answers it was.

    `status` is `queued`, `duplicate`, `failed` or `buffered`. A field that the answer does not have
    is None. `transaction_id` and `queue` are set for all of them.
    """

    index: int = 0
    status: str
    transaction_id: str | None = None
    message_id: str | None = None
    partition_id: str | None = None
    trace_id: str | None = None
    error: str | None = None
    queue: str | None = None
    partition: str | None = None
    operation_id: str | None = None
    queue_position: int | None = None
    estimated_wait: str | None = None
    reason: str | None = None
    queue_name: str | None = None
    given_id: str | None = None

    _written: ClassVar[dict[str, type[Struct]]] = {
        "queued": PushQueued,
        "duplicate": PushDuplicate,
        "failed": PushRefused,
        "buffered": PushBuffered,
    }

    def __post_init__(self) -> None:
        if self.transaction_id is None:
            self.transaction_id = self.given_id
        if self.queue is None:
            self.queue = self.queue_name

    def keys(self) -> list[str]:
        """Return the names that the JSON has."""
        written = self._written.get(self.status)
        if written is None or self.status == "buffered":
            names = super().keys() if written is None else list(written.__struct_encode_fields__)
            return [name for name in names if self[name] is not None]
        return list(written.__struct_encode_fields__)

    @property
    def is_stored(self) -> bool:
        """Return whether the message is in the database: `queued` now, or `duplicate` before."""
        return self.status in ("queued", "duplicate")
