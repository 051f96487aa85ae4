"""Traces: a push has a span, its trace goes with the messages, a handler's span is linked to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from queenmq.client import tracing
from queenmq.client.calls import push_items
from queenmq.client.message import Message

TRACE = 0x0AF7651916CD43DD8448EB211C80319C
TEXT = "0af76519-16cd-43dd-8448-eb211c80319c"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The spans that were finished, of a provider that only this test uses."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def only(spans: InMemorySpanExporter) -> ReadableSpan:
    (span,) = spans.get_finished_spans()
    return span


def message(trace_id: str | None) -> Message[int]:
    return Message(
        id="i", transaction_id="t", data=1, partition_id="p", queue="orders", trace_id=trace_id
    )


def test_without_the_library_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_trace", None)
    assert tracing.current_trace_id() is None
    with tracing.consume_span([message(TEXT)]):
        pass
    items = push_items("orders", [1], partition=None)
    with tracing.push_span(items):
        assert "traceId" not in items[0]


def test_without_a_provider_a_trace_from_elsewhere_is_handed_on() -> None:
    context = trace.SpanContext(TRACE, 1, is_remote=True)
    items = push_items("orders", [1], partition=None)
    with trace.use_span(trace.NonRecordingSpan(context)), tracing.push_span(items):
        assert items[0]["traceId"] == TEXT


def test_without_a_provider_no_trace_is_made_up() -> None:
    items = push_items("orders", [1], partition=None)
    with tracing.push_span(items):
        assert tracing.current_trace_id() is None
    assert "traceId" not in items[0]


def test_a_push_has_a_span_in_the_current_trace_and_its_items_carry_it(
    spans: InMemorySpanExporter,
) -> None:
    items = push_items("orders", [1, {"data": 2, "traceId": TEXT}], partition=None)
    with trace.get_tracer("program").start_as_current_span("work") as work:
        with tracing.push_span(items):
            pass
    push, _ = spans.get_finished_spans()
    assert (push.name, push.kind) == ("push orders", SpanKind.PRODUCER)
    assert push.parent == work.get_span_context()
    assert push.attributes is not None
    assert push.attributes["messaging.batch.message_count"] == 2
    assert items[0]["traceId"].replace("-", "") == f"{push.context.trace_id:032x}"
    assert items[1]["traceId"] == TEXT


def test_a_push_without_a_current_span_begins_a_trace(spans: InMemorySpanExporter) -> None:
    items = push_items("orders", [1], partition=None)
    with tracing.push_span(items):
        pass
    span = only(spans)
    assert span.parent is None
    assert items[0]["traceId"].replace("-", "") == f"{span.context.trace_id:032x}"


def test_a_handler_s_span_is_linked_to_the_traces_of_its_messages(
    spans: InMemorySpanExporter,
) -> None:
    with tracing.consume_span([message(TEXT), message(None), message("nonsense")]):
        pass
    span = only(spans)
    assert (span.name, span.kind) == ("consume orders", SpanKind.CONSUMER)
    (link,) = span.links
    assert link.context.trace_id == TRACE
    assert link.context.is_valid and link.context.is_remote


def test_an_error_is_on_the_span_and_goes_on(spans: InMemorySpanExporter) -> None:
    def fail() -> Any:
        with tracing.consume_span([message(TEXT)]):
            raise ValueError("no address")

    with pytest.raises(ValueError):
        fail()
    assert only(spans).status.status_code is StatusCode.ERROR
