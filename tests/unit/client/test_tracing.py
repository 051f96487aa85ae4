"""Traces: the id of the current span goes with a push, a handler's span is linked to it.

OpenTelemetry itself is not among our dependencies; a small stand-in has the names of its interface.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from queenmq.client import tracing
from queenmq.client.message import Message

TRACE = 0x0AF7651916CD43DD8448EB211C80319C
TEXT = "0af76519-16cd-43dd-8448-eb211c80319c"


class Flags(int):
    SAMPLED = 1


class Stand:
    """What of `opentelemetry.trace` is used."""

    SpanKind = SimpleNamespace(CONSUMER="consumer")
    TraceFlags = Flags
    SpanContext = staticmethod(lambda **fields: SimpleNamespace(**fields))
    Link = staticmethod(lambda context: SimpleNamespace(context=context))

    def __init__(self, *, is_valid: bool) -> None:
        self.spans: list[tuple[str, dict[str, Any]]] = []
        self.context = SimpleNamespace(trace_id=TRACE, is_valid=is_valid)

    def get_current_span(self) -> Any:
        return SimpleNamespace(get_span_context=lambda: self.context)

    def get_tracer(self, name: str) -> Any:
        return self

    @contextlib.contextmanager
    def start_as_current_span(self, name: str, **fields: Any) -> Iterator[None]:
        self.spans.append((name, fields))
        yield


def _message(trace_id: str | None) -> Message[int]:
    return Message(
        id="i", transaction_id="t", data=1, partition_id="p", queue="orders", trace_id=trace_id
    )


def test_without_the_library_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_trace", None)
    assert tracing.current_trace_id() is None
    with tracing.consume_span([_message(TEXT)]):
        pass


def test_the_current_trace_is_a_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_trace", Stand(is_valid=True))
    assert tracing.current_trace_id() == TEXT
    monkeypatch.setattr(tracing, "_trace", Stand(is_valid=False))
    assert tracing.current_trace_id() is None


def test_a_handler_s_span_is_linked_to_the_traces_of_its_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand = Stand(is_valid=True)
    monkeypatch.setattr(tracing, "_trace", stand)
    with tracing.consume_span([_message(TEXT), _message(None), _message("nonsense")]):
        pass
    ((name, fields),) = stand.spans
    assert (name, fields["kind"]) == ("consume orders", "consumer")
    (link,) = fields["links"]
    assert link.context.trace_id == TRACE
    assert link.context.span_id == TRACE & (1 << 64) - 1
    assert link.context.is_remote
