"""Counts refusals because of a bound, by the bound that was reached."""

from __future__ import annotations

from queenmq.errors import Overloaded
from queenmq.metrics.registry import Registry

#: Bounds of connections, at which the edge refuses with 503 and counts by itself.
EDGE_BOUNDS = ("connections_max", "connections_per_address_max", "max_bodies_bytes")
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
)


class Refusals:
    """The refusals of one broker process."""

    def __init__(self, registry: Registry) -> None:
        self._by_bound = registry.counters(
            "queen_refused", "Requests answered 429, by the bound that was reached.", "bound"
        )
        for bound in BOUNDS:
            self._by_bound.of(bound)

    def count(self, error: Overloaded) -> None:
        """Note that a request is answered with this error."""
        self._by_bound.of(error.bound).inc()
