"""Traces from a push over the broker to a handler, with OpenTelemetry's own SDK."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from queenmq import Message, Queen
from tests.support.broker import SOON_S, unique


async def test_a_trace_leads_from_the_push_to_the_handler(
    queen: Queen, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    queue, inside = unique(), []

    async def handle(message: Message[int]) -> None:
        inside.append(trace.get_current_span().get_span_context())

    with provider.get_tracer("program").start_as_current_span("request") as request:
        await queen.push(queue, 1)
        await queen.queue(queue).push({"data": 2})
        await queen.queue(queue).buffer({"message_count": 1}).push({"data": 3})
        await queen.flush_all_buffers()
        await queen.transaction().queue(queue).push({"data": 4}).commit()
        expected = request.get_span_context().trace_id
    await asyncio.wait_for(queen.consume(queue, handle, limit=4), SOON_S)

    spans = exporter.get_finished_spans()
    handled = [span for span in spans if span.name == f"consume {queue}"]
    assert [link.context.trace_id for span in handled for link in span.links] == [expected] * 4
    # The handler's own spans are below it.
    assert inside == [span.context for span in handled]
    pushed = [span for span in spans if span.name == f"push {queue}"]
    assert {span.context.trace_id for span in pushed} == {expected}
    assert len(pushed) == 2
