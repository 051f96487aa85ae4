"""Dead letters: list, push again, delete."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from queenmq.wire.shape import Answer, Natural, Pagination, Request

T = TypeVar("T")


class StoredDeadLetter(Answer, Generic[T], kw_only=True):
    """A message that failed too often, with the reason."""

    id: str
    transaction_id: str
    partition_id: str
    queue: str = ""
    partition: str = ""
    consumer_group: str = "__QUEUE_MODE__"
    error_message: str | None = None
    retry_count: int = 0
    data: T
    producer_sub: str | None = None
    created_at: str = ""
    failed_at: str | None = None
    is_encrypted: bool = False
    #: Why `data` is null although the message has a payload.
    decryption_error: str | None = None


class DeadLetterList(Answer):
    """A page of dead letters, latest failure first."""

    messages: list[StoredDeadLetter[Any]]
    total: int
    pagination: Pagination


class DeadLetterRetryRequest(Request):
    """Selects the dead letters to push again."""

    queue: str | None = None
    consumer_group: str | None = None
    partition: str | None = None
    older_than_seconds: Natural | None = None
    #: What the error begins with.
    error: str | None = None
    limit: int = 100


class DeadLettersRetried(Answer):
    """Dead letters that were pushed again. `remaining` says whether others match."""

    success: bool
    retried: int
    pushed: int
    refused: int
    remaining: bool


class DeadLettersPurged(Answer):
    """Dead letters that were deleted. `remaining` says whether others match."""

    success: bool
    purged: int
    remaining: bool
