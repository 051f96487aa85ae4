"""The series of the pop path. The names are those of the design, behind `queen_`.

Counted once per call or look-up where that is enough, because the pop path is hot.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping

from queenmq.engine.calls.meter import CallMeter
from queenmq.engine.pop.board.decision import Decision, Plan, count_skipped
from queenmq.engine.pop.intention import StateTimes
from queenmq.engine.pop.machine import FINAL, PopState
from queenmq.metrics.registry import SIZES, Registry
from queenmq.metrics.series import Counter
from queenmq.metrics.text import MetricFamily, Sample

_MILLISECONDS = (1, 2, 5, 10, 20, 30, 50, 100, 200, 500, 1_000)
#: Without a broker, every waiting pop would cost one query per half second.
_BASELINE_MS = 500
_STATE_SECONDS = "queen_pop_state_duration_seconds"
#: States in which a pop waits, and in which a database call works for it.
_WAITING = ("pending", "resolving")
_WORKING = ("leasing", "fetching", "abandoned")
_QUERIES = "queen_smart_poll_queries"
_BASELINE = "queen_smart_poll_baseline_queries"


class PopMetrics:
    """All series of the pop path of one broker process."""

    def __init__(
        self, registry: Registry, *, slots: int, read_slots: Callable[[], int] | None = None
    ) -> None:
        self.times = _make_times(registry)
        self._meter = CallMeter(registry, "pop")
        self._slots = slots
        self._read_slots = read_slots or (lambda: slots)
        self._waiting = 0
        self._waiting_since_ms = 0.0
        self._waited_ms = 0.0
        self._make_call_series(registry)
        self._make_poll_series(registry)
        self._make_preflight_series(registry)

    def _make_call_series(self, registry: Registry) -> None:
        self._batch_size = registry.histogram(
            "queen_pop_batch_size", "Pop requests in one call.", bounds=SIZES
        )
        self._batch_count = registry.counter("queen_pop_batch_count", "Lease-and-fetch calls.")
        self._broken = registry.counter("queen_pop_calls_broken", "Calls that failed.")
        busy = registry.counters("queen_pop_slot_busy_seconds", "Time of a slot in calls.", "slot")
        self._slot_busy = [busy.of(str(slot)) for slot in range(self._slots)]
        registry.gauge("queen_pop_slots", "Calls that may run at once.", read=self._read_slots)
        registry.gauge(
            "queen_pop_waiting", "Pops without an answer yet.", read=lambda: self._waiting
        )

    def _make_poll_series(self, registry: Registry) -> None:
        prefix = "queen_smart_poll_"
        skipped = registry.counters(prefix + "intentions_skipped", "Pops left waiting.", "reason")
        self._skipped: dict[Decision, Counter] = {
            decision: skipped.of(decision.value)
            for decision in Decision
            if decision is not Decision.VIABLE_ASSIGNED
        }
        self._viable = registry.counter(
            prefix + "intentions_viable", "Pops given partitions to try."
        )
        self._assigned = registry.counter(
            prefix + "partition_assignments", "Partitions given to pops."
        )
        self._doubles = registry.counter(
            prefix + "double_assignment_errors",
            "Partitions nearly given to two pops at once; must stay 0.",
        )
        self._lease_sizes = registry.histogram(
            "queen_pop_lease_partitions", "Partitions leased by one pop.", bounds=SIZES
        )
        self._queries = registry.counter(_QUERIES, "Queries for waiting pops.")
        registry.counter(
            _BASELINE,
            "Queries if each waiting pop had sent one every half second.",
            read=lambda: self._waited_ms / _BASELINE_MS,
        )
        registry.derive(_derive_reduction)

    def _make_preflight_series(self, registry: Registry) -> None:
        prefix = "queen_smart_poll_preflight_"
        self._checks = registry.counter(
            "queen_has_pending_checks", "Places asked about before a look-up."
        )
        self._hits = registry.counter("queen_has_pending_hits", "Of these, with work.")
        self._misses = registry.counter("queen_has_pending_misses", "Of these, without work.")
        self._preflights = registry.counter(prefix + "queries", "Look-ups for waiting pops.")
        self._timeouts = registry.counter(
            prefix + "timeouts",
            "Look-ups that ran out of time, cancelled in spite of more time or with places left.",
        )
        self._preflight_ms = registry.histogram(
            prefix + "duration_ms", "Time of a look-up.", bounds=_MILLISECONDS
        )
        self._intentions = registry.histogram(
            prefix + "intentions_checked", "Places (scope and group) in one look-up.", bounds=SIZES
        )
        self._found = registry.histogram(
            prefix + "partitions_found", "Partitions with work found by one look-up.", bounds=SIZES
        )

    # What the pop path reports.

    def note_waiting(self, count: int, now_ms: float) -> None:
        """Note that the number of waiting pops has changed."""
        self._waited_ms += self._waiting * (now_ms - self._waiting_since_ms)
        self._waiting = count
        self._waiting_since_ms = now_ms

    def note_plan(self, plan: Plan) -> None:
        """Count what one turn of the decision engine assigned and skipped."""
        if plan.assignments:
            self._viable.inc(len(plan.assignments))
            self._assigned.inc(sum(len(one.partition_ids) for one in plan.assignments))
        for decision, count in count_skipped(plan).items():
            self._skipped[decision].inc(count)

    def note_doubles(self, count: int) -> None:
        """Count assignments that the last check has dropped."""
        if count:
            self._doubles.inc(count)

    def note_call(self, requests: int, *, slot: int, took_ms: float, is_broken: bool) -> None:
        """Note that a lease-and-fetch call has ended."""
        self._queries.inc()
        self._batch_count.inc()
        self._batch_size.observe(requests)
        self._meter.note(requests, took_ms)
        self._slot_busy[slot].inc(took_ms / 1000)
        if is_broken:
            self._broken.inc()

    def note_rows(self, rows: int) -> None:
        """Note that a call has brought messages."""
        self._meter.note_rows(rows)

    def note_lease(self, partitions: int) -> None:
        """Note that a pop is answered with messages of so many partitions."""
        self._lease_sizes.observe(partitions)

    def note_check(self, asked: int, hits: int) -> None:
        """Note that a pending check has ended."""
        self._queries.inc()
        self._checks.inc(asked)
        self._hits.inc(hits)
        self._misses.inc(asked - hits)

    def note_look_up(self, asked: int, found: int, *, took_ms: float) -> None:
        """Note that a look-up has ended."""
        self._queries.inc()
        self._preflights.inc()
        self._preflight_ms.observe(took_ms)
        self._intentions.observe(asked)
        self._found.observe(found)

    def note_timeout(self) -> None:
        """Note that a look-up ran out of time before it had covered all places."""
        self._timeouts.inc()

    def note_cancelled(self, *, took_ms: float, is_timeout: bool) -> None:
        """Note that a look-up was cancelled because it took too long."""
        self._queries.inc()
        self._preflights.inc()
        if is_timeout:
            self._timeouts.inc()
        self._preflight_ms.observe(took_ms)


def _make_times(registry: Registry) -> StateTimes:
    entries = registry.counters(
        "queen_pop_state_entries", "Times a pop has come into a state.", "state"
    )
    seconds = registry.histograms(_STATE_SECONDS, "Time of a pop in a state.", "state")
    times = StateTimes(
        {state: seconds.of(state.name.lower()) for state in PopState if state not in FINAL}
    )
    for state in PopState:
        read = functools.partial(times.entries.__getitem__, state)
        registry.follow(entries.of(state.name.lower()), read)
    registry.derive(_derive_state_seconds)
    registry.derive(functools.partial(_derive_stays, "waiting", "outside of", _WAITING))
    registry.derive(functools.partial(_derive_stays, "working", "in", _WORKING))
    return times


def _derive_stays(
    what: str, where: str, states: Collection[str], families: Mapping[str, MetricFamily]
) -> MetricFamily:
    """Add up the histograms of several states."""
    sums: dict[tuple[str, str], float] = {}
    for suffix, labels, value in families[_STATE_SECONDS].samples:
        if labels["state"] in states:
            key = (suffix, labels.get("le", ""))
            sums[key] = sums.get(key, 0.0) + value
    samples = [
        Sample(suffix, {"le": le} if le else {}, value) for (suffix, le), value in sums.items()
    ]
    text = f"Time of a pop {where} database calls, each stay by itself."
    return MetricFamily(f"queen_pop_{what}_seconds", text, "histogram", samples)


def _derive_state_seconds(families: Mapping[str, MetricFamily]) -> MetricFamily:
    sums = [
        Sample("", sample.labels, sample.value)
        for sample in families[_STATE_SECONDS].samples
        if sample.suffix == "_sum"
    ]
    return MetricFamily(
        "queen_pop_state_seconds", "Time pops have spent in a state.", "counter", sums
    )


def _derive_reduction(families: Mapping[str, MetricFamily]) -> MetricFamily:
    queries, baseline = (
        sum(sample.value for sample in families[name].samples) for name in (_QUERIES, _BASELINE)
    )
    saved = max(0.0, 100 * (1 - queries / baseline)) if baseline else 0.0
    return MetricFamily(
        "queen_smart_poll_query_reduction_percentage",
        "Queries saved against one per waiting pop and half second.",
        "gauge",
        [Sample("", {}, saved)],
    )
