"""Traces: what consumers record about messages. Answers have names with underscores."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from queenmq.wire.shape import Answer, Pagination, Request


class TraceRequest(Request):
    """Something to record about a message."""

    transaction_id: str
    partition_id: str
    data: Raw
    consumer_group: str | None = None
    event_type: str | None = None
    trace_names: list[str] | str | None = None


class TraceAdded(Answer):
    """A trace that was recorded."""

    success: bool
    trace_id: str


class Trace(Answer, rename=None, kw_only=True):
    """A trace of a message."""

    id: str
    event_type: str
    data: Any
    consumer_group: str
    worker_id: str | None = None
    created_at: str
    trace_names: list[str]


class TraceList(Answer):
    """All traces of a message, oldest first."""

    traces: list[Trace]


class MessageDelivery(Answer, kw_only=True):
    """One way of a message through a group."""

    consumer_group: str
    #: None: that is not known.
    delivered_at: str | None
    #: None: a consumer has it under its lease now.
    passed_at: str | None
    #: ack, autoAck, poison, removed or seek, as in ackHistory, or lease for a live lease.
    cause: str
    #: Failed acks and leases that ran out before.
    retries: int
    #: Whether a message of the same step became a dead letter.
    has_dead_letter: bool


class MessageDeliveries(Answer):
    """The times at which groups got and passed a message, oldest first."""

    #: Whether the queue keeps `ackHistory`, and since when. Without it only leases are known.
    is_kept: bool
    kept_since: str | None
    #: Whether later steps of the queue were not searched.
    is_cut: bool
    deliveries: list[MessageDelivery]


class NamedTrace(Trace, kw_only=True):
    """A trace with the message that it is about."""

    transaction_id: str
    partition_id: str
    queue_name: str
    partition_name: str
    message_payload: Any


class NamedTraceList(Answer):
    """A page of the traces with a name, newest first."""

    traces: list[NamedTrace]
    total: int
    pagination: Pagination


class TraceName(Answer, rename=None):
    """A name under which something was recorded."""

    trace_name: str
    trace_count: int
    message_count: int
    last_seen: str


class TraceNameList(Answer, rename=None):
    """A page of names, last used first."""

    trace_names: list[TraceName]
    total: int
    pagination: Pagination
