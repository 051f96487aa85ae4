"""Times in answers and in queries, and the steps into which a span of time is cut."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from queenmq.clock import utc_now
from queenmq.errors import InvalidRequest
from queenmq.server.requests.queries import parse_time

#: Steps of one answer.
STEPS_MAX = 1_500
#: The length of a step in minutes, by the longest span that is cut into such steps.
_STEP_MINUTES = (
    (timedelta(hours=1), 1),
    (timedelta(hours=6), 5),
    (timedelta(days=1), 15),
    (timedelta(days=7), 60),
    (timedelta(days=366), 360),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = datetime.min.replace(tzinfo=UTC)


def iso(time: datetime) -> str:
    """Write a time in UTC with milliseconds and a Z."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_or_none(time: datetime | None) -> str | None:
    """Write a time as `iso` does, and leave None as it is."""
    return None if time is None else iso(time)


class Span(NamedTuple):
    """From a time up to another."""

    start: datetime
    end: datetime


def parse_span(
    query: dict[str, str], *, default: timedelta, ahead: timedelta = timedelta()
) -> Span:
    """Parse `from` and `to` of a query. The default span ends now."""
    end = parse_time("to", query["to"]) if query.get("to") else utc_now() + ahead
    # Not before all time.
    earliest = max(end, _EARLIEST + default) - default
    start = parse_time("from", query["from"]) if query.get("from") else earliest
    if start >= end:
        raise InvalidRequest(
            f"from {iso_or_none(start)} is not before to {iso_or_none(end)}; swap them"
        )
    return Span(start, end)


def step_minutes(span: Span) -> int:
    """Return the length of the steps of a span, so that there are not too many."""
    for longest, minutes in _STEP_MINUTES:
        if span.end - span.start <= longest:
            return minutes
    raise InvalidRequest(
        f"from {iso_or_none(span.start)} is more than 366 days before to; ask for less"
    )


def steps_of(span: Span, step: timedelta) -> list[datetime]:
    """Return the starts of the steps that cover a span, oldest first, on the grid of their
    length.
    """
    first = span.start - (span.start - _EPOCH) % step
    count = -((first - span.end) // step)
    if count > STEPS_MAX:
        raise InvalidRequest(
            f"from {iso_or_none(span.start)} to {iso_or_none(span.end)} makes {count} points; ask"
            f" for at most {STEPS_MAX}, or use a longer interval"
        )
    return [first + number * step for number in range(count)]
