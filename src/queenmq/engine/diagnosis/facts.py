"""Facts about a consumer group on a queue, for a diagnosis. Plain values, no behaviour.

They come from the database (queue_facts.sql makes the JSON of QueueFacts) and from the broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace


class PartitionFacts(Struct, frozen=True, kw_only=True):
    """A partition that has messages for the group."""

    partition: str
    partition_id: str
    #: ready, leased, waiting or blocked.
    state: str
    backlog: int
    has_cursor: bool
    #: The next message of the group.
    oldest_id: str | None = None
    oldest_at: datetime | None = None
    newest_at: datetime | None = None
    #: The last lease; live if it expires in the future, abandoned if it did so in the past.
    lease_id: str | None = None
    lease_acquired_at: datetime | None = None
    lease_expires_at: datetime | None = None
    lease_messages: int | None = None
    retry_count: int = 0
    retry_at: datetime | None = None
    #: The error of the last failed ack of the message that is redelivered.
    retry_error: str | None = None
    expiry_count: int = 0
    is_solo: bool = False
    blocked_id: str | None = None
    last_consumed_at: datetime | None = None


class Behind(Struct, frozen=True, kw_only=True):
    """The backlog of the group: counts of partitions and messages, and some partitions."""

    behind: int = 0
    ready: int = 0
    leased: int = 0
    waiting: int = 0
    blocked: int = 0
    backlog: int = 0
    oldest_at: datetime | None = None
    details: Sequence[PartitionFacts] = ()


class OperationFacts(Struct, frozen=True, kw_only=True):
    """A push that waits in the operation queue."""

    id: str
    partition: str
    status: str
    created_at: datetime
    error: str | None = None
    claimed_by: str | None = None


class Operations(Struct, frozen=True, kw_only=True):
    """The queued pushes. The first one is failed if any is."""

    pending: int = 0
    processing: int = 0
    failed: int = 0
    first: OperationFacts | None = None


class DeadLetterFacts(Struct, frozen=True, kw_only=True):
    """The last dead letter of the group."""

    partition: str
    transaction_id: str
    #: None: not for this caller.
    error: str | None
    failed_at: datetime


class Start(Struct, frozen=True, kw_only=True):
    """The start of the group."""

    mode: str
    at: datetime


class QueueFacts(Struct, frozen=True, kw_only=True):
    """The facts from the database about a group on a queue or on one partition of it."""

    now: datetime
    queue: str
    consumer_group: str
    partition: str | None = None
    namespace: str = ""
    task: str = ""
    #: Groups with a cursor on the queue, those with the largest lag first.
    groups: Sequence[str] = ()
    has_cursor: bool = False
    partitions: int = 0
    lease_time: int = 300
    retry_limit: int = 3
    delayed_processing: int = 0
    window_buffer: int = 0
    on_poison: str = "dlq"
    max_size: int = 0
    waiting_messages: int = 0
    start: Start | None = None
    behind: Behind = Behind()
    operations: Operations = Operations()
    last_dead_letter: DeadLetterFacts | None = None


def hide_error_texts(facts: QueueFacts) -> QueueFacts:
    """Return the facts without what consumers wrote, for callers that may not read messages.

    Error texts quote payloads often enough to be guarded like them.
    """
    letter, behind = facts.last_dead_letter, facts.behind
    details = [replace(one, retry_error=None) for one in behind.details]
    return replace(
        facts,
        behind=replace(behind, details=details),
        last_dead_letter=None if letter is None else replace(letter, error=None),
    )


class BrokerFacts(NamedTuple):
    """The facts from the broker that answers."""

    is_pop_paused: bool = False
    is_push_buffered: bool = False
    #: Push requests on its disk that wait to be stored, and those set aside.
    spool_records: int = 0
    aside_records: int = 0
    #: Waiting pops of the group on this broker that could get messages of it.
    waiting_pops: int = 0
    #: Whether it refuses pops because of its load.
    is_refusing_pops: bool = False
    #: Whether an operator has paused the group.
    is_group_paused: bool = False
    #: Why a payload of the queue could not be decrypted lately.
    unreadable: str | None = None
