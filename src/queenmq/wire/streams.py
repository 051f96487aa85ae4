"""Requests and answers of stream queries, their state and their cycles.

What clients of streams send and get has the names of the official SDK, most of them in snake case:
those Structs rename nothing. What operators get is in camel case, as everything else.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, field

from queenmq.wire.messaging.push import (
    PushBuffered,
    PushDuplicate,
    PushItem,
    PushQueued,
    PushRefused,
    make_null,
)
from queenmq.wire.shape import Answer, Request

_PUSHED = (PushQueued, PushDuplicate, PushRefused, PushBuffered)
#: The answer to a push. No tag distinguishes its shapes, so the schema has to name them.
PushResults = Annotated[
    list[Any],
    Meta(
        extra_json_schema={
            "items": {
                "anyOf": [{"$ref": f"#/components/schemas/{one.__name__}"} for one in _PUSHED]
            }
        }
    ),
]


class RegisterRequest(Request, rename={}):
    """POST /streams/v1/queries."""

    name: str
    source_queue: str
    config_hash: str
    sink_queue: str | None = None
    reset: bool = False


class Registered(Answer, rename={}):
    """A query that was registered or resumed."""

    success: Literal[True]
    query_id: str
    name: str
    config_hash: str
    fresh: bool
    reset: bool


class RegisterRefused(Answer, rename={}):
    """A query that is known with another configuration."""

    success: Literal[False]
    query_id: str
    name: str
    error: str
    #: For programs, as in every answer with an error.
    code: str


class StateRequest(Request, rename={}):
    """POST /streams/v1/state/get."""

    query_id: str
    partition_id: str
    keys: list[str] | None = None
    key_prefix: str | None = None
    ripe_at_or_before: float | None = None


class StateRow(Answer, rename={}):
    """One row of state."""

    key: str
    value: Any
    updated_at: str


class StateFound(Answer, rename={}):
    """Rows of state, in key order, and the version to send with the cycle that uses them."""

    success: Literal[True]
    rows: list[StateRow]
    version: int


class StateMissing(Answer, rename={}):
    """The query is not registered."""

    success: Literal[False]
    rows: list[StateRow]
    error: str


class StateOp(Request, rename={}):
    """A row of state to put or delete."""

    type: str
    key: str
    value: Raw = field(default_factory=make_null)


class CycleAck(Request):
    """The last message of the source that the cycle is about."""

    transaction_id: str
    lease_id: str | None = None
    status: str | None = None
    count: Annotated[int, Meta(ge=0)] = 1
    error: str | None = None


class CycleRequest(Request, rename={}):
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


class AckOutcome(Answer, rename={}):
    """The result of the ack of a cycle."""

    success: Literal[True]
    count: int
    lease_released: bool
    dlq: bool


class CycleCommitted(Answer, rename={"queue_name": "queueName"}):
    """A cycle that was committed, now or when it was sent first."""

    success: Literal[True]
    query_id: str
    partition_id: str
    queue_name: str | None
    state_ops_applied: int
    push_results: PushResults
    ack_result: AckOutcome | None


class CycleRefused(Answer, rename={}):
    """A cycle of which nothing was done."""

    success: Literal[False]
    query_id: str
    partition_id: str
    error: str


class StreamQuery(Answer):
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


class StreamQueries(Answer):
    """All queries, up to a bound."""

    streams: list[StreamQuery]
    is_cut: bool


class StreamDeleted(Answer):
    """A query that was removed, and the consumer groups that went with it."""

    success: Literal[True]
    name: str
    consumer_groups: list[str]
