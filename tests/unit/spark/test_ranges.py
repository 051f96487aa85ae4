"""Ranges of time as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from queenmq.errors import InvalidRequest
from queenmq.spark.jobs.ranges import make_range, parse_length

NOW = datetime(2026, 3, 1, 12, 34, 56, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("2h", 7_200), ("1d", 86_400), (" 1h ", 3_600)]
)
def test_lengths(text: str, seconds: int) -> None:
    assert parse_length(text, "--bucket") == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "0s", "5x", "-5m", "1500ms", "9999999999s"])
def test_other_lengths_are_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidRequest, match="--bucket must be a length of whole seconds like"):
        parse_length(text, "--bucket")


def test_without_an_end_the_running_bucket_is_left_out() -> None:
    span = make_range(None, None, "5m", now=NOW)
    assert span.end == datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    assert span.start == datetime(2026, 2, 28, 12, 30, tzinfo=UTC)
    assert span.buckets == len(span.starts()) == 288


def test_an_end_that_is_named_is_part_of_the_range() -> None:
    span = make_range("1h ago", "2026-03-01T12:31:00+00:00", "5m", now=NOW)
    assert span == make_range("1h", "2026-03-01T12:31:00+00:00", "5m", now=NOW)
    assert span.start == datetime(2026, 3, 1, 11, 30, tzinfo=UTC)
    assert span.end == datetime(2026, 3, 1, 12, 35, tzinfo=UTC)


def test_times_of_other_zones_are_the_same_moment() -> None:
    span = make_range("2026-03-01T01:00:00+02:00", "2026-03-01T02:00:00+02:00", "1h", now=NOW)
    assert span.starts() == [datetime(2026, 2, 28, 23, tzinfo=UTC)]
    assert span.end - span.start == timedelta(hours=1)


@pytest.mark.parametrize(
    ("start", "end", "bucket", "text"),
    [
        ("1h", "2h", "5m", "is not before --to"),
        ("soon", None, "5m", "--from must be a time like .* not 'soon'"),
        (None, "2026-03-01T12:00:00", "5m", "--to must be a time like"),
        ("30d", None, "1m", "cuts the range into 432.. pieces, and 2000 are the most"),
        ("1m", None, "1h", "no bucket of --bucket 1h has ended"),
    ],
)
def test_what_makes_no_range_is_one_sentence(
    start: str | None, end: str | None, bucket: str, text: str
) -> None:
    with pytest.raises(InvalidRequest, match=text):
        make_range(start, end, bucket, now=NOW)
