"""When the span of a push begins: with its request, whatever became of the pushes before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from queenmq.clock import now_ms, unix_ms
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.requests import PartitionKey, PushItems
from queenmq.metrics.registry import Registry
from queenmq.server.tracing.traced_traffic import TracedTraffic

_TRACE, _SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
_HOUR_MS = 3_600_000


class Spans:
    """Keeps what would be sent."""

    def __init__(self) -> None:
        self.added: list[dict[str, Any]] = []

    def add(self, name: str, parent: Any, **about: Any) -> None:
        self.added.append({"name": name, "parent": parent, **about})


def _request(began_ms: float, *headers: tuple[bytes, bytes]) -> Any:
    return SimpleNamespace(head=dict(headers), began_ms=began_ms)


def _items() -> PushItems:
    return PushItems([PartitionKey("orders", "a")], ["1"], trace_ids=[UUID(_TRACE)])


def test_a_span_lasts_from_its_request_and_hangs_below_the_span_of_the_header() -> None:
    spans: Any = Spans()
    traffic = TracedTraffic(Registry(), spans)
    header = (b"traceparent", f"00-{_TRACE}-{_SPAN}-01".encode())
    items = PushItems([PartitionKey("orders", "a")], ["1"], transaction_ids=["t"])
    traced = traffic.begin(_request(now_ms() - _HOUR_MS, header), items)
    traffic.note_push(traced, [ItemOutcome.STORED])
    (span,) = spans.added
    assert _HOUR_MS <= span["end_ms"] - span["start_ms"] < 2 * _HOUR_MS
    assert span["parent"].span_id == int(_SPAN, 16)
    assert traced.transaction_ids == ["t"] and traced.trace_ids == [UUID(_TRACE)]


def test_a_failed_push_lends_its_begin_to_no_other() -> None:
    spans: Any = Spans()
    traffic = TracedTraffic(Registry(), spans)
    # Items of the same size are likely to get the place, and so the id, of those before.
    for _ in range(100):
        traffic.begin(_request(now_ms() - _HOUR_MS), _items())
        before = unix_ms()
        kept = [_items() for _ in range(10)]
        for items in kept:
            traffic.note_committed_pushes(items, [ItemOutcome.STORED])
        assert all(span["start_ms"] >= before for span in spans.added)
        spans.added.clear()
