"""Spans of time in queries, and the steps they are cut into."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from queenmq.errors import InvalidRequest
from queenmq.server.requests.times import (
    STEPS_MAX,
    Span,
    iso_or_none,
    parse_span,
    step_minutes,
    steps_of,
)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_given_span_is_taken_as_it_is() -> None:
    query = {"from": "2030-01-01T11:00:00Z", "to": "2030-01-01T13:00:00+01:00"}
    assert parse_span(query, default=HOUR) == Span(NOON - HOUR, NOON)


def test_span_without_a_start_is_as_long_as_the_default() -> None:
    assert parse_span({"to": "2030-01-01T12:00"}, default=HOUR) == Span(NOON - HOUR, NOON)


def test_span_without_anything_ends_now() -> None:
    span = parse_span({}, default=HOUR)
    ahead = parse_span({}, default=HOUR, ahead=timedelta(days=1))
    assert span.end - span.start == HOUR
    assert ahead.end - span.end >= timedelta(days=1)


@pytest.mark.parametrize("start", ["2030-01-01T12:00:00Z", "2031-01-01"])
def test_span_that_ends_before_it_begins_is_refused(start: str) -> None:
    with pytest.raises(InvalidRequest, match="from 203"):
        parse_span({"from": start, "to": "2030-01-01T12:00:00Z"}, default=HOUR)


def test_span_at_the_edge_of_time_is_refused_with_a_sentence() -> None:
    with pytest.raises(InvalidRequest, match="not before"):
        parse_span({"to": "0001-01-01T00:00:00Z"}, default=HOUR)


@pytest.mark.parametrize(
    ("length", "minutes"),
    [
        (HOUR, 1),
        (HOUR * 1.01, 5),
        (6 * HOUR, 5),
        (24 * HOUR, 15),
        (timedelta(days=7), 60),
        (timedelta(days=8), 360),
        (timedelta(days=366), 360),
    ],
)
def test_longer_spans_have_longer_steps_and_never_too_many(length: timedelta, minutes: int) -> None:
    span = Span(NOON - length, NOON)
    assert step_minutes(span) == minutes
    assert len(steps_of(span, timedelta(minutes=minutes))) <= STEPS_MAX


def test_spans_of_years_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="366 days"):
        step_minutes(Span(NOON - timedelta(days=367), NOON))


def test_steps_lie_on_a_common_grid_and_cover_the_span() -> None:
    span = Span(NOON - timedelta(minutes=7), NOON + timedelta(seconds=1))
    starts = steps_of(span, timedelta(minutes=5))
    assert starts == [NOON - timedelta(minutes=10), NOON - timedelta(minutes=5), NOON]
    exact = steps_of(Span(NOON - timedelta(minutes=10), NOON), timedelta(minutes=5))
    assert exact == starts[:2]


def test_too_many_steps_are_refused() -> None:
    span = Span(NOON - timedelta(minutes=STEPS_MAX + 1), NOON)
    with pytest.raises(InvalidRequest, match=str(STEPS_MAX)):
        steps_of(span, timedelta(minutes=1))


def test_times_are_written_in_utc_with_milliseconds() -> None:
    assert iso_or_none(NOON) == "2030-01-01T12:00:00.000Z"
    assert iso_or_none(None) is None
