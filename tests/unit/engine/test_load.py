"""The decision about an operation under load: every type, below and at its bound."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queenmq.engine.load.pressure import (
    RETRY_AFTER_S_MAX,
    Limits,
    LoadDecision,
    OperationType,
    Pressure,
    Sample,
    SlotUse,
    decide,
    engage,
    engaged_types,
    make_thresholds,
    pressure_of,
    retry_after_s,
)

EXECUTE, QUEUE, REJECT = LoadDecision.EXECUTE, LoadDecision.QUEUE, LoadDecision.REJECT
TYPES = list(OperationType)
THRESHOLDS = make_thresholds()
LIMITS = Limits()
RELEASE_RATIO = 0.7
#: Where severity counts: a decision may only move to the right under more load.
SEVERITY = [EXECUTE, QUEUE, REJECT]


def make_sample(
    *,
    size: int = 16,
    in_use: int = 0,
    waiting: int = 0,
    fullness: float = 0,
    oldest_ms: float = 0,
    lag_ms: float = 0,
) -> Sample:
    return Sample(SlotUse(size, in_use, waiting), fullness, oldest_ms, lag_ms, 0, 0)


def make_pressure(
    kind: OperationType, *, is_engaged: bool, operations: int = 0, acks: int = 0
) -> Pressure:
    return Pressure(1.0, frozenset({kind} if is_engaged else ()), operations, acks)


def settle(value: float) -> Pressure:
    """The pressure of a broker that was idle before."""
    return Pressure(value, engaged_types(frozenset(), value, THRESHOLDS, RELEASE_RATIO))


def test_the_priorities_are_those_of_the_design() -> None:
    assert {kind.name: kind.value for kind in TYPES} == {
        "SYSTEM_EVENT": 1,
        "ACK_BATCH": 3,
        "ACK_SINGLE": 4,
        "PUSH": 5,
        "POP": 6,
        "BACKGROUND": 8,
        "ANALYTICS": 10,
    }


#: Type, then what becomes of it: calm below and at the bound, engaged below and at the bound.
BY_OPERATIONS = {
    "SYSTEM_EVENT": (EXECUTE, EXECUTE, EXECUTE, EXECUTE),
    "ACK_BATCH": (EXECUTE, EXECUTE, EXECUTE, EXECUTE),
    "ACK_SINGLE": (EXECUTE, EXECUTE, EXECUTE, EXECUTE),
    "PUSH": (EXECUTE, EXECUTE, QUEUE, REJECT),
    "POP": (EXECUTE, EXECUTE, REJECT, REJECT),
    "BACKGROUND": (EXECUTE, EXECUTE, REJECT, REJECT),
    "ANALYTICS": (EXECUTE, EXECUTE, EXECUTE, EXECUTE),
}
BY_ACKS = {
    "SYSTEM_EVENT": (EXECUTE, EXECUTE, EXECUTE, EXECUTE),
    "ACK_BATCH": (EXECUTE, REJECT, EXECUTE, REJECT),
    "ACK_SINGLE": (EXECUTE, REJECT, EXECUTE, REJECT),
    "PUSH": (EXECUTE, EXECUTE, QUEUE, QUEUE),
    "POP": (EXECUTE, EXECUTE, REJECT, REJECT),
    "BACKGROUND": (EXECUTE, EXECUTE, REJECT, REJECT),
    "ANALYTICS": (EXECUTE, EXECUTE, EXECUTE, EXECUTE),
}


class TestDecisions:
    @pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
    def test_every_type_by_queued_operations(self, kind: OperationType) -> None:
        found = tuple(
            decide(kind, make_pressure(kind, is_engaged=on, operations=depth), THRESHOLDS)
            for on, depth in itertools.product((False, True), (9_999, 10_000))
        )
        assert found == BY_OPERATIONS[kind.name]

    @pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
    def test_every_type_by_waiting_acks(self, kind: OperationType) -> None:
        found = tuple(
            decide(kind, make_pressure(kind, is_engaged=on, acks=depth), THRESHOLDS)
            for on, depth in itertools.product((False, True), (49_999, 50_000))
        )
        assert found == BY_ACKS[kind.name]

    @pytest.mark.parametrize(
        ("value", "refused", "queued"),
        [
            (0.0, set(), set()),
            (0.69, set(), set()),
            (0.7, {"BACKGROUND"}, {"PUSH"}),
            (0.94, {"BACKGROUND"}, {"PUSH"}),
            (0.95, {"BACKGROUND", "POP"}, {"PUSH"}),
            (100.0, {"BACKGROUND", "POP"}, {"PUSH"}),
        ],
    )
    def test_each_type_has_its_threshold(
        self, value: float, refused: set[str], queued: set[str]
    ) -> None:
        found = {kind.name: decide(kind, settle(value), THRESHOLDS) for kind in TYPES}
        assert {name for name, decision in found.items() if decision is REJECT} == refused
        assert {name for name, decision in found.items() if decision is QUEUE} == queued

    def test_acks_are_engaged_at_a_threshold_of_their_own(self) -> None:
        assert not settle(0.79).engaged & {OperationType.ACK_BATCH, OperationType.ACK_SINGLE}
        assert settle(0.8).engaged >= {OperationType.ACK_BATCH, OperationType.ACK_SINGLE}

    def test_thresholds_and_bounds_can_be_set(self) -> None:
        thresholds = make_thresholds(push_at=0.1, push_queue_max=3, ack_queue_max=2, pop_at=0.2)
        engaged = engaged_types(frozenset(), 0.15, thresholds, RELEASE_RATIO)
        assert decide(OperationType.PUSH, Pressure(0.15, engaged, 2), thresholds) is QUEUE
        assert decide(OperationType.PUSH, Pressure(0.15, engaged, 3), thresholds) is REJECT
        assert decide(OperationType.POP, Pressure(0.15, engaged, 3), thresholds) is EXECUTE
        assert decide(OperationType.ACK_BATCH, Pressure(0, engaged, 0, 2), thresholds) is REJECT


class TestPressure:
    @pytest.mark.parametrize("size", [1, 4, 16, 500])
    def test_an_idle_pool_is_no_pressure(self, size: int) -> None:
        # Its connections may all be open: that says nothing about load.
        assert pressure_of(make_sample(size=size), LIMITS) == 0

    @pytest.mark.parametrize("size", [1, 4, 16, 500])
    def test_a_full_pool_in_which_nobody_waits_executes_everything(self, size: int) -> None:
        value = pressure_of(make_sample(size=size, in_use=size), LIMITS)
        assert 0 < value < 0.7
        assert {decide(kind, settle(value), THRESHOLDS) for kind in TYPES} == {EXECUTE}

    def test_calls_that_wait_for_a_connection_are_pressure(self) -> None:
        values = [
            pressure_of(make_sample(in_use=16, waiting=count), LIMITS) for count in (0, 2, 8, 16)
        ]
        assert values == sorted(set(values))
        assert values[1] >= 0.7 and values[-1] > 1

    def test_a_database_that_is_not_open_is_no_pressure(self) -> None:
        assert pressure_of(make_sample(size=0), LIMITS) == 0

    @pytest.mark.parametrize(
        ("measure", "value"), [("fullness", 1.0), ("oldest_ms", 1_000), ("lag_ms", 500)]
    )
    def test_every_other_measure_alone_reaches_one_at_its_limit(
        self, measure: str, value: float
    ) -> None:
        assert pressure_of(make_sample(**{measure: value}), LIMITS) == 1  # type: ignore[arg-type]
        half = make_sample(**{measure: value / 2})  # type: ignore[arg-type]
        assert pressure_of(half, LIMITS) == 0.5

    def test_the_worst_measure_counts(self) -> None:
        sample = make_sample(in_use=16, fullness=0.1, oldest_ms=900, lag_ms=10)
        assert pressure_of(sample, LIMITS) == 0.9

    def test_limits_can_be_set(self) -> None:
        limits = Limits(age_ms=10, lag_ms=20)
        assert pressure_of(make_sample(oldest_ms=10), limits) == 1
        assert pressure_of(make_sample(lag_ms=10), limits) == 0.5


def run(values: list[float], *, threshold: float = 0.7) -> list[bool]:
    """Return whether a type is engaged after each of these pressures."""
    states, is_engaged = [], False
    for value in values:
        is_engaged = engage(is_engaged, value, threshold, RELEASE_RATIO)
        states.append(is_engaged)
    return states


class TestHysteresis:
    def test_on_at_the_threshold_and_off_only_well_below_it(self) -> None:
        values = [0.69, 0.7, 0.69, 0.5, 0.49, 0.48, 0.69, 0.7, 0.0]
        assert run(values) == [False, True, True, True, True, False, False, True, False]

    def test_a_pressure_that_swings_about_the_threshold_engages_once(self) -> None:
        assert run([0.71, 0.69] * 50) == [True] * 100

    def test_a_pressure_that_swings_about_the_release_does_not_engage_again(self) -> None:
        assert run([0.7, *([0.48, 0.5] * 50)]) == [True, *([False] * 100)]

    @given(st.lists(st.floats(0, 2), max_size=50), st.floats(0.1, 1))
    def test_changes_are_never_more_than_real_crossings(
        self, values: list[float], threshold: float
    ) -> None:
        states = [False, *run(values, threshold=threshold)]
        changes = sum(before != after for before, after in itertools.pairwise(states))
        # A real crossing goes all the way from below the release to the threshold, or back.
        low, high = threshold * RELEASE_RATIO, threshold
        sides = [value >= high for value in values if not low <= value < high]
        crossings = sum(a != b for a, b in itertools.pairwise([False, *sides]))
        assert changes == crossings

    def test_types_are_released_one_by_one(self) -> None:
        engaged = engaged_types(frozenset(), 1.0, THRESHOLDS, RELEASE_RATIO)
        assert engaged == set(TYPES) - {OperationType.SYSTEM_EVENT, OperationType.ANALYTICS}
        engaged = engaged_types(engaged, 0.6, THRESHOLDS, RELEASE_RATIO)
        assert OperationType.POP not in engaged and OperationType.PUSH in engaged
        assert engaged_types(engaged, 0.48, THRESHOLDS, RELEASE_RATIO) == frozenset()


MEASURES = st.tuples(
    st.integers(0, 500),
    st.integers(0, 500),
    st.floats(0, 3),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
)
Measures = tuple[int, int, float, float, float]


def _value(measures: Measures) -> float:
    in_use, waiting, fullness, oldest_ms, lag_ms = measures
    sample = make_sample(
        in_use=in_use, waiting=waiting, fullness=fullness, oldest_ms=oldest_ms, lag_ms=lag_ms
    )
    return pressure_of(sample, LIMITS)


class TestMoreIsNeverLess:
    @given(MEASURES, MEASURES)
    def test_pressure_grows_with_every_measure(self, less: Measures, more: Measures) -> None:
        for place in range(len(less)):
            pair = sorted((less[place], more[place]))
            low, high = list(less), list(less)
            low[place], high[place] = pair
            assert _value(tuple(low)) <= _value(tuple(high))  # type: ignore[arg-type]

    @given(st.sampled_from(TYPES), *([st.floats(0, 3), st.integers(0, 60_000)] * 2), st.data())
    def test_decisions_grow_with_pressure_and_depths(
        self,
        kind: OperationType,
        value: float,
        depth: int,
        more_value: float,
        more_depth: int,
        data: st.DataObject,
    ) -> None:
        acks = data.draw(st.integers(0, 60_000))
        more_acks = data.draw(st.integers(acks, 120_000))
        calm = settle(value)._replace(operation_depth=depth, acks_waiting=acks)
        worse = settle(value + more_value)._replace(
            operation_depth=depth + more_depth, acks_waiting=more_acks
        )
        before, after = decide(kind, calm, THRESHOLDS), decide(kind, worse, THRESHOLDS)
        assert SEVERITY.index(before) <= SEVERITY.index(after)

    @given(st.booleans(), st.floats(0, 3), st.floats(0, 3), st.floats(0.01, 2), st.floats(0.01, 1))
    def test_engagement_grows_with_pressure_and_with_having_been_engaged(
        self, was: bool, value: float, more: float, threshold: float, ratio: float
    ) -> None:
        assert engage(was, value, threshold, ratio) <= engage(was, value + more, threshold, ratio)
        assert engage(False, value, threshold, ratio) <= engage(True, value, threshold, ratio)


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("depth", "rate", "seconds"),
        [
            (10_000, None, 1),
            (0, 5.0, 1),
            (1, 1_000.0, 1),
            (10, 10.0, 1),
            (11, 10.0, 2),
            (10_000, 1_000.0, 10),
            (10_000, 1.0, 30),
            (10, 0.0, 30),
            (1, math.inf, 1),
        ],
    )
    def test_depth_by_rate_in_whole_seconds(
        self, depth: int, rate: float | None, seconds: int
    ) -> None:
        assert retry_after_s(depth, rate) == seconds

    @given(st.integers(0, 10**9), st.one_of(st.none(), st.floats(0, 1e9)), st.integers(0, 10**9))
    def test_it_is_bounded_and_grows_with_depth(
        self, depth: int, rate: float | None, more: int
    ) -> None:
        seconds = retry_after_s(depth, rate)
        assert 1 <= seconds <= RETRY_AFTER_S_MAX
        assert seconds <= retry_after_s(depth + more, rate)
