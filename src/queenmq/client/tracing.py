"""Owns OpenTelemetry: spans of pushes and handlers. A message carries the trace of its push.

Without the library nothing here has an effect. A message has room for a trace id but not for a span
id, so the span id of a link is derived from the trace id.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from queenmq.client.message import Message
from queenmq.ids import parse_uuid

_trace: Any
try:
    from opentelemetry import trace as _trace
except ImportError:  # pragma: no cover - depends on what is installed
    _trace = None

_SPAN_BITS = (1 << 64) - 1
_NO_SPAN = contextlib.nullcontext()


def current_trace_id() -> str | None:
    """Return the trace of the current span as a UUID, None if there is none."""
    if _trace is None:
        return None
    span = _trace.get_current_span()
    if span is _trace.INVALID_SPAN:
        return None
    context = span.get_span_context()
    return str(UUID(int=context.trace_id)) if context.is_valid else None


def _tracer() -> Any:
    """Return the tracer, or None if nothing would record its spans.

    Unrecorded spans still cost a tenth of a push.
    """
    if _trace is None:
        return None
    provider = _trace.get_tracer_provider()
    is_idle = isinstance(provider, _trace.ProxyTracerProvider)
    return None if is_idle else provider.get_tracer("queenmq")


def push_span(items: Sequence[dict[str, Any]]) -> AbstractContextManager[None]:
    """Return a span around a push. Items without a trace id get that of the span."""
    tracer = _tracer()
    if tracer is None or not items:
        _hand_on(items)
        return _NO_SPAN
    return _push_span(tracer, items)


@contextlib.contextmanager
def _push_span(tracer: Any, items: Sequence[dict[str, Any]]) -> Iterator[None]:
    queue = items[0]["queue"]
    with tracer.start_as_current_span(
        f"push {queue}", kind=_trace.SpanKind.PRODUCER, attributes=_attributes(queue, len(items))
    ):
        _hand_on(items)
        yield


def _hand_on(items: Sequence[dict[str, Any]]) -> None:
    trace_id = current_trace_id()
    if trace_id is not None:
        for item in items:
            item.setdefault("traceId", trace_id)


def consume_span(messages: Sequence[Message[Any]]) -> AbstractContextManager[None]:
    """Return a span around a handler, linked to the traces in which its messages were pushed."""
    tracer = _tracer()
    return _NO_SPAN if tracer is None else _consume_span(tracer, messages)


@contextlib.contextmanager
def _consume_span(tracer: Any, messages: Sequence[Message[Any]]) -> Iterator[None]:
    found = [parse_uuid(one.trace_id) for one in messages if one.trace_id]
    links = [_trace.Link(_context_of(trace_id)) for trace_id in found if trace_id is not None]
    queue = messages[0].queue if messages else ""
    with tracer.start_as_current_span(
        f"consume {queue}".strip(),
        kind=_trace.SpanKind.CONSUMER,
        links=links,
        attributes=_attributes(queue, len(messages)),
    ):
        yield


def _attributes(queue: str, count: int) -> dict[str, Any]:
    return {
        "messaging.system": "queenmq",
        "messaging.destination.name": queue,
        "messaging.batch.message_count": count,
    }


def _context_of(trace_id: UUID) -> Any:
    return _trace.SpanContext(
        trace_id=trace_id.int,
        span_id=(trace_id.int & _SPAN_BITS) or 1,
        is_remote=True,
        trace_flags=_trace.TraceFlags(_trace.TraceFlags.SAMPLED),
    )
