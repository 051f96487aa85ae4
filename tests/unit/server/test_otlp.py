"""A collector that answers with a redirect: the spans are reported as lost, not sent elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from queenmq.server.tracing.context import Parent
from queenmq.server.tracing.otlp import Spans


class Mover:
    """Answers each request with a redirect to itself."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        mover = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                mover.methods.append("POST")
                self.send_response(302)
                self.send_header("Location", f"{mover.url}?secret=planted")
                self.end_headers()

            def do_GET(self) -> None:
                mover.methods.append("GET")
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def mover() -> Iterator[Mover]:
    one = Mover()
    yield one
    one.close()


def test_spans_follow_no_redirect(mover: Mover, caplog: pytest.LogCaptureFixture) -> None:
    spans = Spans(mover.url, ratio=1.0)
    spans.add("store", Parent(1, 2), start_ms=1.0, end_ms=2.0, attributes={})
    spans.close()
    assert mover.methods == ["POST"]
    (record,) = [one for one in caplog.records if getattr(one, "event", "") == "spans_lost"]
    assert "302" in record.getMessage() and "final address" in record.getMessage()
    assert "planted" not in record.getMessage()
