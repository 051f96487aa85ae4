"""Counts what the broker refuses because something is full, by the bound that was reached."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from queenmq.errors import Overloaded

#: Every bound, so that each series is there before its first refusal: a rate needs two values.
BOUNDS = (
    "push_waiting_max",
    "pop_waiting_max",
    "load_ack_queue_max",
    "load_push_queue_max",
    "load_partition_queue_max",
    "load_pop_threshold",
    "spool_max_bytes",
    "transactions_waiting",
    "cycles_waiting",
    "state_reads",
    "load",
)


class Refusals:
    """The refusals of one broker process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._counter = Counter(
            "queen_refused",
            "Requests answered 429, by the bound that was reached.",
            labelnames=["bound"],
            registry=registry,
        )
        for bound in BOUNDS:
            self._counter.labels(bound)

    def count(self, error: Overloaded) -> None:
        """A request is answered with this error."""
        self._counter.labels(error.bound).inc()
