"""Requests and answers of stream queries, their state and their cycles."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from queenmq.wire.push import PushItem


class RegisterRequest(Struct):
    """POST /streams/v1/queries."""

    name: str
    source_queue: str
    config_hash: str
    sink_queue: str | None = None
    reset: bool = False


class Registered(Struct):
    """A query that was registered or resumed."""

    success: Literal[True]
    query_id: str
    name: str
    config_hash: str
    fresh: bool
    reset: bool


class RegisterRefused(Struct):
    """A query that is known with another configuration."""

    success: Literal[False]
    query_id: str
    name: str
    error: str


class StateRequest(Struct):
    """POST /streams/v1/state/get."""

    query_id: str
    partition_id: str
    keys: list[str] | None = None
    key_prefix: str | None = None
    ripe_at_or_before: float | None = None


class StateRow(Struct):
    """One row of state."""

    key: str
    value: Any


class StateFound(Struct):
    """Rows of state, in key order, and the version to send with the cycle that uses them."""

    success: Literal[True]
    rows: list[StateRow]
    version: int


class StateMissing(Struct):
    """The query is not registered."""

    success: Literal[False]
    rows: list[StateRow]
    error: str


class StateOp(Struct):
    """A row of state to put or delete."""

    type: str
    key: str
    value: Raw = Raw(b"null")


class WindowEnd(Struct):
    """What the broker reads of a value of state."""

    windowEnd: Any = None


class CycleAck(Struct):
    """The last message of the source that the cycle is about."""

    transactionId: str
    leaseId: str | None = None
    status: str | None = None
    count: Annotated[int, Meta(ge=0)] = 1
    error: str | None = None


class CycleRequest(Struct):
    """POST /streams/v1/cycle."""

    query_id: str
    partition_id: str
    consumer_group: str | None = None
    state_ops: list[StateOp] | None = None
    push_items: list[PushItem] | None = None
    ack: CycleAck | None = None
    release_lease: bool = True
    #: The version that state/get gave with the state this cycle was computed from.
    state_version: Annotated[int, Meta(ge=0, le=2**62)] | None = None


class AckOutcome(Struct):
    """What became of the ack of a cycle."""

    success: Literal[True]
    count: int
    lease_released: bool
    dlq: bool


class CycleCommitted(Struct):
    """A cycle that was committed, now or when it was sent first."""

    success: Literal[True]
    query_id: str
    partition_id: str
    queueName: str | None
    state_ops_applied: int
    push_results: list[Any]
    ack_result: AckOutcome | None


class CycleRefused(Struct):
    """A cycle of which nothing was done."""

    success: Literal[False]
    query_id: str
    partition_id: str
    error: str


class StreamQuery(Struct, rename="camel"):
    """One query as operators see it."""

    id: str
    name: str
    source_queue: str
    sink_queue: str | None
    config_hash: str
    consumer_group: str | None
    partitions: int
    cycles: int
    state_keys: int
    state_bytes: int
    total_lag: int
    max_time_lag: float | None
    last_cycle_at: str | None
    last_error: str | None
    last_error_at: str | None
    created_at: str | None
    registered_at: str | None


class StreamQueries(Struct, rename="camel"):
    """All queries, up to a bound."""

    streams: list[StreamQuery]
    is_cut: bool


class StreamDeleted(Struct, rename="camel"):
    """A query that was removed, and the consumer groups that went with it."""

    success: Literal[True]
    name: str
    consumer_groups: list[str]
