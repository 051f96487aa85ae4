"""What is known of the operation queue without asking: its depth, and how fast it drains."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from queenmq.engine.requests import WaitingOperations

#: Weight of the newest run in the drain rate.
_NEW = 0.3
#: Operations per second that are assumed before any were run.
_RATE = 100.0


class OperationMetrics:
    """Counts of one broker process; the depth is that of the database, as last measured here."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rate: float | None = None
        self._depth = 0
        self._oldest_s = 0.0
        self._undecided = 0
        prefix = "queen_operation_queue_"
        depth = Gauge(prefix + "depth", "Operations that wait.", registry=registry)
        depth.set_function(lambda: self._depth)
        oldest = Gauge(prefix + "oldest_seconds", "Age of the oldest of them.", registry=registry)
        oldest.set_function(lambda: self._oldest_s)
        undecided = Gauge(
            prefix + "undecided", "Failed operations that wait for a person.", registry=registry
        )
        undecided.set_function(lambda: self._undecided)
        self._queued = Counter(prefix + "queued", "Operations queued here.", registry=registry)
        self._executed = Counter(
            prefix + "executed", "Operations completed here.", registry=registry
        )
        self._messages = Counter(prefix + "messages", "Messages they stored.", registry=registry)
        #: The same, for those who add it up.
        self.messages = 0
        self._failed = Counter(prefix + "failed", "Operations given up here.", registry=registry)
        self._reclaimed = Counter(
            prefix + "reclaimed", "Operations taken over from a lost worker.", registry=registry
        )

    @property
    def depth(self) -> int:
        """Operations that wait, as far as this broker knows."""
        return self._depth

    @property
    def undecided(self) -> int:
        """Failed operations that nobody has retried or discarded, as last measured here."""
        return self._undecided

    @property
    def drain_rate(self) -> float | None:
        """Operations per second while they are run; None before the first."""
        return self._rate

    def wait_s(self, position: int) -> int:
        """How long the operation at this place in line may take, in whole seconds."""
        return max(1, round(position / (self._rate or _RATE)))

    def queued(self, count: int) -> None:
        self._depth += count
        self._queued.inc(count)

    def measured(self, waiting: WaitingOperations) -> None:
        self._depth = waiting.operations
        self._oldest_s = waiting.oldest_s
        self._undecided = waiting.failed

    def claimed(self, stuck: int) -> None:
        self._reclaimed.inc(stuck)

    def executed(self, operations: int, messages: int, *, took_ms: float) -> None:
        self._depth = max(0, self._depth - operations)
        self._executed.inc(operations)
        self._messages.inc(messages)
        self.messages += messages
        rate = operations * 1000 / max(took_ms, 0.1)
        self._rate = rate if self._rate is None else self._rate + _NEW * (rate - self._rate)

    def failed(self, count: int) -> None:
        self._failed.inc(count)
