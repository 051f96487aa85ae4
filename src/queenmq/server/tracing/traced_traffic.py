"""Counts traffic and makes a span of each step of a message: stored, delivered, acked.

The steps of one message are in the trace of its push, which the message carries as its trace id
through the database. An ack names no trace, so the process remembers the traces of delivered
messages.
"""

from __future__ import annotations

import dataclasses
import json
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from queenmq.clock import now_ms, unix_ms
from queenmq.engine.ack.entry import list_items
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.requests import (
    AckItem,
    AckResult,
    CompletedLease,
    PopGrant,
    PopRequest,
    PushItems,
)
from queenmq.ids import parse_uuid
from queenmq.metrics.registry import Registry
from queenmq.server.edge.exchange import Exchange
from queenmq.server.metering.traffic import Traffic, stored_at_ms
from queenmq.server.tracing.context import Parent, parent_of, parse_traceparent
from queenmq.server.tracing.otlp import Spans

#: Spans of one request; a push of thousands of messages would be nothing but spans.
_SPANS_MAX = 100
#: Delivered messages whose acks are in their traces.
_DELIVERED_MAX = 50_000

V = TypeVar("V")


@dataclasses.dataclass(slots=True)
class TracedItems(PushItems):
    """The items of a push that is traced."""

    #: When the request came, in Unix milliseconds.
    began_ms: float = 0.0
    #: The span that its header names.
    parent: Parent | None = None


class TracedTraffic(Traffic):
    """Traffic with spans."""

    def __init__(self, registry: Registry, spans: Spans) -> None:
        super().__init__(registry)
        self._spans = spans
        self._trace_of: OrderedDict[Hashable, tuple[UUID, str]] = OrderedDict()

    def begin(self, exchange: Exchange, items: PushItems) -> TracedItems:
        """Note when a push came, and put the trace of its header into items that have none."""
        parent = parse_traceparent(exchange.head.get(b"traceparent"))
        columns = {one.name: getattr(items, one.name) for one in dataclasses.fields(items)}
        if parent is not None:
            trace_id = UUID(int=parent.trace_id)
            given = items.trace_ids or [None] * len(items.keys)
            columns["trace_ids"] = [one or trace_id for one in given]
        began_ms = unix_ms() - (now_ms() - exchange.began_ms)
        return TracedItems(**columns, began_ms=began_ms, parent=parent)

    def note_push(self, items: PushItems, outcomes: Sequence[ItemOutcome]) -> None:
        """Count a push, and add a span for each trace in it."""
        super().note_push(items, outcomes)
        self._store_spans(items, outcomes)

    def note_committed_pushes(self, items: PushItems, outcomes: Sequence[ItemOutcome]) -> None:
        """Count the pushes of a transaction, and add their spans."""
        super().note_committed_pushes(items, outcomes)
        self._store_spans(items, outcomes)

    def _store_spans(self, items: PushItems, outcomes: Sequence[ItemOutcome]) -> None:
        now = unix_ms()
        began: float = now
        named: Parent | None = None
        if isinstance(items, TracedItems):
            began, named = items.began_ms, items.parent
        traces = zip(items.trace_ids or (), items.keys, outcomes, strict=False)
        seen = {trace: (key, outcome) for trace, key, outcome in traces if trace is not None}
        for trace_id, (key, outcome) in list(seen.items())[:_SPANS_MAX]:
            is_named = named is not None and named.trace_id == trace_id.int
            self._spans.add(
                f"store {key.queue}",
                named if named is not None and is_named else parent_of(trace_id),
                start_ms=began,
                end_ms=now,
                attributes={**_about(key.queue), "queenmq.outcome": outcome.value},
            )

    def note_delivery(self, request: PopRequest, grants: Sequence[PopGrant]) -> None:
        """Count a pop; a message's span lasts from its storing to now."""
        super().note_delivery(request, grants)
        now, left = unix_ms(), _SPANS_MAX
        for grant in grants:
            text = grant.messages or ""
            if left <= 0 or '"traceId":"' not in text:
                continue
            for message in json.loads(f"[{text}]")[:left]:
                left -= 1
                self._deliver_span(request, message, now)

    def _deliver_span(self, request: PopRequest, message: dict[str, Any], now: float) -> None:
        trace_id = parse_uuid(message["traceId"] or "")
        if trace_id is None:
            return
        queue = message["queue"]
        self._spans.add(
            f"deliver {queue}",
            parent_of(trace_id),
            start_ms=stored_at_ms(f'{{"retryCount":0,"id":"{message["id"]}'),
            end_ms=now,
            attributes={**_about(queue), "messaging.consumer.group.name": request.consumer_group},
        )
        key = (message["partitionId"], message["transactionId"])
        _remember(self._trace_of, key, (trace_id, queue), _DELIVERED_MAX)

    def note_acks(
        self, acks: Sequence[AckItem] | Sequence[CompletedLease], results: Sequence[AckResult]
    ) -> None:
        """Count acks, and add their spans."""
        super().note_acks(acks, results)
        items = [one for one in acks if isinstance(one, AckItem)]
        items += list_items([one for one in acks if isinstance(one, CompletedLease)])
        self._ack_spans(items, [result.success for result in results])

    def note_committed_acks(self, items: Sequence[AckItem], is_dead: Sequence[bool]) -> None:
        """Count the acks of a transaction, and add their spans."""
        super().note_committed_acks(items, is_dead)
        self._ack_spans(items, [True] * len(items))

    def _ack_spans(self, items: Sequence[AckItem], successes: Sequence[bool]) -> None:
        now = unix_ms()
        for item, success in list(zip(items, successes, strict=True))[:_SPANS_MAX]:
            known = self._trace_of.get((str(item.partition_id), item.transaction_id))
            if known is not None:
                trace_id, queue = known
                about = {**_about(queue), "messaging.consumer.group.name": item.consumer_group}
                about |= {"queenmq.ack.status": item.status, "queenmq.ack.success": success}
                self._spans.add(
                    f"ack {queue}", parent_of(trace_id), start_ms=now, end_ms=now, attributes=about
                )


def _about(queue: str) -> dict[str, Any]:
    return {"messaging.system": "queenmq", "messaging.destination.name": queue}


def _remember(memory: OrderedDict[Hashable, V], key: Hashable, value: V, count_max: int) -> None:
    memory[key] = value
    if len(memory) > count_max:
        memory.popitem(last=False)
