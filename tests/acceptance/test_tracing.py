"""The broker's spans, sent as OTLP to a collector: one message is one trace."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.broker import SOON_S, Api, running_broker, unique
from tests.support.waiting import wait_until_async

_TRACE, _SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
_OTHER = "11111111111111112222222222222222"


class Collector:
    """Takes what a collector takes, and keeps it decoded."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        self.types: set[str | None] = set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.types.add(self.headers.get("Content-Type"))
                length = int(self.headers["Content-Length"])
                collector.take(ExportTraceServiceRequest.FromString(self.rfile.read(length)))
                body = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"

    def take(self, request: ExportTraceServiceRequest) -> None:
        for group in request.resource_spans:
            for one in group.resource.attributes:
                if one.key == "service.name":
                    self.services.add(one.value.string_value)
            for scope in group.scope_spans:
                self.spans += scope.spans

    def of(self, trace: str) -> list[Any]:
        found = [span for span in list(self.spans) if span.trace_id.hex() == trace]
        return sorted(found, key=lambda span: span.name)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def _collecting() -> Iterator[Collector]:
    collector = Collector()
    try:
        yield collector
    finally:
        collector.close()


def _about(span: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in span.attributes}


async def test_push_delivery_and_ack_are_one_trace(database_url: str) -> None:
    queue = unique()
    with (
        _collecting() as collector,
        running_broker(database_url=database_url, QUEEN_OTLP_ENDPOINT=collector.url) as broker,
    ):
        api = Api(broker.url)
        body = {"items": [{"queue": queue, "payload": 1}]}
        # By the header of the request, and by the trace id that a client of ours puts in.
        header = {"traceparent": f"00-{_TRACE}-{_SPAN}-01"}
        response = await api.http.post("/api/v1/push", json=body, headers=header)
        assert response.json()[0]["trace_id"].replace("-", "") == _TRACE
        await api.push(queue, 2, traceId=f"{_OTHER[:8]}-{_OTHER[8:12]}-{_OTHER[12:16]}"
                       f"-{_OTHER[16:20]}-{_OTHER[20:]}")  # fmt: skip
        # Neither a bad header nor one that is not sampled makes spans.
        for bad in ("nonsense", f"00-{_OTHER}-{_SPAN}-00", f"00-{'0' * 32}-{_SPAN}-01"):
            await api.http.post("/api/v1/push", json=body, headers={"traceparent": bad})
        messages = await api.pop(queue, batch=10, consumerGroup="g")
        assert len(messages) == 5
        await api.ack(*messages, group="g")
        await wait_until_async(
            lambda: len(collector.of(_TRACE)) >= 3 and len(collector.of(_OTHER)) >= 3,
            timeout_s=SOON_S,
            what="the spans",
        )
        await api.close()
    ack, deliver, store = collector.of(_TRACE)
    assert [one.name for one in (store, deliver, ack)] == [
        f"{step} {queue}" for step in ("store", "deliver", "ack")
    ]
    assert store.parent_span_id.hex() == _SPAN
    assert store.start_time_unix_nano <= store.end_time_unix_nano <= ack.start_time_unix_nano
    assert deliver.start_time_unix_nano < deliver.end_time_unix_nano
    assert _about(deliver)["messaging.consumer.group.name"] == "g"
    assert _about(ack)["queenmq.ack.status"] == "completed"
    assert len(collector.of(_OTHER)) == 3
    assert len(collector.spans) == 6
    assert (collector.services, collector.types) == ({"queenmq"}, {"application/x-protobuf"})


async def test_a_collector_that_is_away_costs_spans_and_nothing_else(database_url: str) -> None:
    queue = unique()
    away = {"QUEEN_OTLP_ENDPOINT": "http://127.0.0.1:1/v1/traces"}
    with running_broker(database_url=database_url, **away) as broker:
        api = Api(broker.url)
        header = {"traceparent": f"00-{_TRACE}-{_SPAN}-01"}
        body = {"items": [{"queue": queue, "payload": 1}]}
        response = await api.http.post("/api/v1/push", json=body, headers=header)
        assert response.status_code == 201
        (message,) = await api.pop(queue)
        assert (await api.ack(message))[0]["success"]
        await api.close()
        assert broker.stop() == 0
    assert any("spans could not be sent" in line for line in broker.log)
