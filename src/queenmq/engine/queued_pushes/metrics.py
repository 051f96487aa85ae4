"""The known depth and drain rate of the operation queue, without a query."""

from __future__ import annotations

from collections.abc import Iterable

from queenmq.engine.requests import WaitingOperations
from queenmq.metrics.registry import Registry

#: Weight of the newest run in the drain rate.
_NEW = 0.3
_LATENCY_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0)
#: Operations per second that are assumed before any were run.
_RATE = 100.0


class OperationMetrics:
    """Counts of one broker process. The depth is that of the database, as last measured here."""

    def __init__(self, registry: Registry) -> None:
        self._rate: float | None = None
        self._depth = 0
        self._oldest_s = 0.0
        self._undecided = 0
        #: Recent average time from accepting an operation to storing it; None before the first.
        self.latency_s: float | None = None
        prefix = "queen_operation_queue_"
        registry.gauge(
            prefix + "depth", "Operations that wait.", read=lambda: self._depth, merge="max"
        )
        registry.gauge(
            prefix + "oldest_seconds",
            "Age of the oldest operation that waits.",
            read=lambda: self._oldest_s,
            merge="max",
        )
        registry.gauge(
            prefix + "undecided",
            "Failed operations that wait for a person.",
            read=lambda: self._undecided,
            merge="max",
        )
        self._queued = registry.counter(prefix + "queued", "Operations queued here.")
        self._executed = registry.counter(prefix + "executed", "Operations completed here.")
        self._messages = registry.counter(
            prefix + "messages", "Messages stored by completed operations."
        )
        self.messages = 0
        self._failed = registry.counter(prefix + "failed", "Operations given up here.")
        self._reclaimed = registry.counter(
            prefix + "reclaimed", "Operations taken over from a lost worker."
        )
        #: `latency_s` as a histogram.
        self._latency_s = registry.histogram(
            prefix + "latency_seconds",
            "From accepting an operation to storing it.",
            bounds=_LATENCY_SECONDS,
        )

    @property
    def depth(self) -> int:
        """Return how many operations wait, as far as this broker knows."""
        return self._depth

    @property
    def oldest_s(self) -> float:
        """Return the age of the oldest waiting operation, as last measured here."""
        return self._oldest_s

    @property
    def undecided(self) -> int:
        """Return how many failed operations wait for an operator, as last measured here."""
        return self._undecided

    @property
    def drain_rate(self) -> float | None:
        """Return operations per second while they are run, or None before the first."""
        return self._rate

    def wait_s(self, position: int) -> int:
        """Estimate how long the operation at this place in line takes, in whole seconds."""
        return max(1, round(position / (self._rate or _RATE)))

    def note_queued(self, count: int) -> None:
        self._depth += count
        self._queued.inc(count)

    def note_depth(self, waiting: WaitingOperations) -> None:
        self._depth = waiting.operations
        self._oldest_s = waiting.oldest_s
        self._undecided = waiting.failed

    def note_stuck(self, stuck: int) -> None:
        self._reclaimed.inc(stuck)

    def note_run(self, operations: int, messages: int, *, took_ms: float) -> None:
        self._depth = max(0, self._depth - operations)
        self._executed.inc(operations)
        self._messages.inc(messages)
        self.messages += messages
        rate = operations * 1000 / max(took_ms, 0.1)
        self._rate = rate if self._rate is None else self._rate + _NEW * (rate - self._rate)

    def note_latencies(self, latencies_s: Iterable[float]) -> None:
        """Count how long after their acceptance operations were stored."""
        for latency_s in latencies_s:
            self._latency_s.observe(latency_s)
            before = self.latency_s
            self.latency_s = latency_s if before is None else before + _NEW * (latency_s - before)

    def note_failed(self, count: int) -> None:
        self._failed.inc(count)
