"""Spans of the broker for OpenTelemetry: the steps of a message, in the trace of its push.

Nothing here runs, and the library is not imported, unless `otlp_endpoint` is set. Start with
`traced_traffic.py`.
"""

from __future__ import annotations
