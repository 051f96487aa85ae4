"""What the pop path counts about itself. The names are those of the design, behind `queen_`.

Counted once per call or look-up, not per request, because the pop path is hot; times per state are
added up by the pops themselves and read when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from queenmq.engine.pop.board.decision import Decision, Plan, count_skipped
from queenmq.engine.pop.intention import StateTimes

_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
_MILLISECONDS = (1, 2, 5, 10, 20, 30, 50, 100, 200, 500, 1_000)
#: What every waiting pop would cost without a broker in between: one query per half second.
_BASELINE_MS = 500


class PopMetrics(Collector):
    """All series of the pop path of one broker process."""

    def __init__(self, registry: CollectorRegistry, *, slots: int) -> None:
        self.times = StateTimes()
        self._slots = slots
        self._queries = 0
        self._waiting = 0
        self._waiting_since_ms = 0.0
        self._waited_ms = 0.0
        self._make_call_series(registry)
        self._make_poll_series(registry)
        registry.register(self)

    def _make_call_series(self, registry: CollectorRegistry) -> None:
        self._batch_size = Histogram(
            "queen_pop_batch_size", "Pop requests in one call.", registry=registry, buckets=_SIZES
        )
        self._batch_count = Counter(
            "queen_pop_batch_count", "Lease-and-fetch calls.", registry=registry
        )
        self._broken = Counter("queen_pop_calls_broken", "Calls that failed.", registry=registry)
        self._slot_busy = Counter(
            "queen_pop_slot_busy_seconds",
            "Time of a slot in calls.",
            ["slot"],
            registry=registry,
        )
        slots = Gauge("queen_pop_slots", "Calls that may run at once.", registry=registry)
        slots.set(self._slots)
        waiting = Gauge("queen_pop_waiting", "Pops without an answer yet.", registry=registry)
        waiting.set_function(lambda: self._waiting)
        for slot in range(self._slots):
            self._slot_busy.labels(slot)

    def _make_poll_series(self, registry: CollectorRegistry) -> None:
        prefix = "queen_smart_poll_"
        self._checks = Counter(
            "queen_has_pending_checks", "Places asked about before a look-up.", registry=registry
        )
        self._hits = Counter("queen_has_pending_hits", "Of these, with work.", registry=registry)
        self._misses = Counter(
            "queen_has_pending_misses", "Of these, without work.", registry=registry
        )
        self._preflights = Counter(
            prefix + "preflight_queries", "Look-ups for waiting pops.", registry=registry
        )
        self._preflight_ms = Histogram(
            prefix + "preflight_duration_ms",
            "Time of a look-up.",
            registry=registry,
            buckets=_MILLISECONDS,
        )
        self._intentions = Histogram(
            prefix + "preflight_intentions_checked",
            "Places (scope and group) in one look-up.",
            registry=registry,
            buckets=_SIZES,
        )
        self._found = Histogram(
            prefix + "preflight_partitions_found",
            "Partitions with work found by one look-up.",
            registry=registry,
            buckets=_SIZES,
        )
        self._skipped = Counter(
            prefix + "intentions_skipped", "Pops left waiting.", ["reason"], registry=registry
        )
        for decision in Decision:
            if decision is not Decision.VIABLE_ASSIGNED:
                self._skipped.labels(decision.value)
        self._viable = Counter(
            prefix + "intentions_viable", "Pops given partitions to try.", registry=registry
        )
        self._assigned = Counter(
            prefix + "partition_assignments", "Partitions given to pops.", registry=registry
        )
        self._doubles = Counter(
            prefix + "double_assignment_errors",
            "Partitions nearly given to two pops at once; must stay 0.",
            registry=registry,
        )
        self._reduction = Gauge(
            prefix + "query_reduction_percentage",
            "Queries saved against one per waiting pop and half second.",
            registry=registry,
        )
        self._reduction.set_function(self._query_reduction)

    # What the pop path reports.

    def waiting(self, count: int, now_ms: float) -> None:
        """The number of waiting pops has changed."""
        self._waited_ms += self._waiting * (now_ms - self._waiting_since_ms)
        self._waiting = count
        self._waiting_since_ms = now_ms

    def planned(self, plan: Plan) -> None:
        """A turn of the decision engine."""
        if plan.assignments:
            self._viable.inc(len(plan.assignments))
            self._assigned.inc(sum(len(one.partition_ids) for one in plan.assignments))
        for decision, count in count_skipped(plan).items():
            self._skipped.labels(decision.value).inc(count)

    def doubled(self, count: int) -> None:
        """Assignments that the last check has stopped."""
        if count:
            self._doubles.inc(count)

    def called(self, requests: int, *, slot: int, took_ms: float, is_broken: bool) -> None:
        """A lease-and-fetch call has ended."""
        self._queries += 1
        self._batch_count.inc()
        self._batch_size.observe(requests)
        self._slot_busy.labels(slot).inc(took_ms / 1000)
        if is_broken:
            self._broken.inc()

    def checked(self, asked: int, hits: int) -> None:
        """A pending check has ended."""
        self._queries += 1
        self._checks.inc(asked)
        self._hits.inc(hits)
        self._misses.inc(asked - hits)

    def looked_up(self, asked: int, found: int, *, took_ms: float) -> None:
        """A look-up has ended."""
        self._queries += 1
        self._preflights.inc()
        self._preflight_ms.observe(took_ms)
        self._intentions.observe(asked)
        self._found.observe(found)

    # What is read when somebody asks.

    def _query_reduction(self) -> float:
        baseline = self._waited_ms / _BASELINE_MS
        return max(0.0, 100 * (1 - self._queries / baseline)) if baseline else 0.0

    def collect(self) -> Iterable[CounterMetricFamily]:
        """Times per state."""
        seconds = CounterMetricFamily(
            "queen_pop_state_seconds", "Time pops have spent in a state.", labels=["state"]
        )
        entries = CounterMetricFamily(
            "queen_pop_state_entries", "Times a pop has come into a state.", labels=["state"]
        )
        for state, count in self.times.entries.items():
            seconds.add_metric([state.name.lower()], self.times.total_ms[state] / 1000)
            entries.add_metric([state.name.lower()], count)
        return [seconds, entries]
