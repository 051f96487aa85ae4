"""Sends spans to a collector: OTLP over HTTP, in protobuf. The only importer of OpenTelemetry here.

Spans gather in memory and are sent by a thread of the library's, so a collector that is slow or
away costs spans and nothing else.
"""

from __future__ import annotations

import logging
import ssl
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from queenmq.clock import now_ms
from queenmq.errors import SettingsError
from queenmq.server.redirects import RefuseRedirects
from queenmq.server.tracing.context import Parent
from queenmq.version import VERSION

logger = logging.getLogger(__name__)

_TIMEOUT_S = 5.0
#: Spans that wait, spans of one request to the collector, and how long they gather.
_QUEUE_MAX = 8_192
_BATCH = 512
_DELAY_MS = 1_000
_WARN_EVERY_MS = 60_000


class Spans:
    """Makes spans in given traces, and sends them."""

    def __init__(self, endpoint: str, *, ratio: float) -> None:
        # Not the value in either error: it may hold a password.
        if not endpoint.startswith(("http://", "https://")):
            raise SettingsError(
                "otlp_endpoint is not the URL of a collector; use http://host:port/path or https://"
            )
        if "@" in endpoint.split("/")[2]:
            # It would not be sent, and errors of the HTTP library quote it.
            raise SettingsError(
                "otlp_endpoint has a user or password, which is never sent; remove it"
            )
        try:
            from opentelemetry import trace
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

            exporter = _make_exporter(endpoint)
        except ImportError as error:
            raise SettingsError(
                f"otlp_endpoint needs OpenTelemetry, and the package {error.name} is missing;"
                " install it with: pip install 'queenmq[otel]', or in a clone: make setup"
            ) from error
        self._trace = trace
        # By the trace id alone, so that all brokers keep the same traces.
        self._provider = TracerProvider(
            sampler=TraceIdRatioBased(ratio),
            resource=Resource.create({"service.name": "queenmq", "service.version": VERSION}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(
                exporter,
                max_queue_size=_QUEUE_MAX,
                max_export_batch_size=_BATCH,
                schedule_delay_millis=_DELAY_MS,
            )
        )
        self._tracer = self._provider.get_tracer("queenmq.broker", VERSION)

    def add(
        self,
        name: str,
        parent: Parent,
        *,
        start_ms: float,
        end_ms: float,
        attributes: Mapping[str, Any],
    ) -> None:
        """Add a span that is over; times in Unix milliseconds."""
        trace = self._trace
        context = trace.SpanContext(
            trace_id=parent.trace_id,
            span_id=parent.span_id,
            is_remote=True,
            trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
        )
        span = self._tracer.start_span(
            name,
            context=trace.set_span_in_context(trace.NonRecordingSpan(context)),
            kind=trace.SpanKind.SERVER,
            start_time=int(start_ms * 1e6),
            attributes=attributes,
        )
        span.end(end_time=int(max(start_ms, end_ms) * 1e6))

    def close(self) -> None:
        """Send the collected spans within a time limit, then stop."""
        self._provider.shutdown()


def _make_exporter(endpoint: str) -> Any:
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Exporter(SpanExporter):
        """Posts batches of spans."""

        def __init__(self) -> None:
            context = ssl.create_default_context() if endpoint.startswith("https:") else None
            handlers: list[Any] = [urllib.request.ProxyHandler({}), RefuseRedirects]
            if context is not None:
                handlers.append(urllib.request.HTTPSHandler(context=context))
            self._opener = urllib.request.build_opener(*handlers)
            self._warn_at_ms = 0.0

        def export(self, spans: Sequence[Any]) -> Any:
            body = encode_spans(spans).SerializeToString()
            headers = {"Content-Type": "application/x-protobuf"}
            # The constructor takes http and https alone.
            request = urllib.request.Request(endpoint, data=body, headers=headers)  # noqa: S310
            try:
                with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                    answer.read()
            except OSError as error:
                self._warn(len(spans), error)
                return SpanExportResult.FAILURE
            return SpanExportResult.SUCCESS

        def _warn(self, count: int, error: OSError) -> None:
            if now_ms() >= self._warn_at_ms:
                self._warn_at_ms = now_ms() + _WARN_EVERY_MS
                text = "%d spans could not be sent to otlp_endpoint and are lost: %s"
                logger.warning(text, count, error, extra={"event": "spans_lost"})

    return Exporter()
