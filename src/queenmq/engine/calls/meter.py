"""The series of each path that joins requests into calls."""

from __future__ import annotations

from queenmq.metrics.registry import SIZES, Registry


class CallMeter:
    """The calls of one path: push, pop, ack, transaction, cycle, extend or release."""

    def __init__(self, registry: Registry, path: str) -> None:
        self._wait_s = registry.histograms(
            "queen_call_wait_seconds",
            "Longest time that a request of a call waited for it.",
            "path",
        ).of(path)
        self._requests = registry.histograms(
            "queen_call_requests", "Requests in one call.", "path", bounds=SIZES
        ).of(path)
        self._took_s = registry.histograms(
            "queen_call_seconds", "Time of a database call.", "path"
        ).of(path)
        self._rows = registry.histograms(
            "queen_call_rows", "Messages or leases in one call.", "path", bounds=SIZES
        ).of(path)

    def note_wait(self, waited_ms: float) -> None:
        """Note how long the oldest request of a call has waited when the call begins.

        Pops do not report it: they wait for messages, and `queen_pop_waiting_seconds` has that.
        """
        self._wait_s.observe(waited_ms / 1000)

    def note(self, requests: int, took_ms: float) -> None:
        """Note that a call has ended."""
        self._requests.observe(requests)
        self._took_s.observe(took_ms / 1000)

    def note_rows(self, rows: int) -> None:
        """Count the items that a call stored or acked, or the messages that it returned."""
        self._rows.observe(rows)
