"""Parses durations and time ranges, and divides them into buckets. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from queenmq.durations import parse_seconds
from queenmq.errors import InvalidRequest
from queenmq.spark.source.offsets import parse_time

#: A chart has no use for more, and every group of every queue has a row in each.
BUCKETS_MAX = 2_000


@dataclass(frozen=True)
class Range:
    """From, up to but without its end, in buckets that begin at multiples of their length."""

    start: datetime
    end: datetime
    bucket_s: int

    @property
    def buckets(self) -> int:
        """Return how many there are."""
        return int((self.end - self.start).total_seconds()) // self.bucket_s

    def starts(self) -> list[datetime]:
        """Return the start of each bucket."""
        step = timedelta(seconds=self.bucket_s)
        return [self.start + step * number for number in range(self.buckets)]


def parse_length(text: str, option: str) -> int:
    """Parse `90s`, `5m`, `2h`, `1d` into seconds."""
    seconds = parse_seconds(text) or 0.0
    if seconds < 1 or seconds % 1:
        raise InvalidRequest(
            f"{option} must be a length of whole seconds like 90s, 5m, 2h or 1d, not {text!r}"
        )
    return int(seconds)


def parse_moment(text: str, option: str, *, now: datetime) -> datetime:
    """Parse a time, or how long ago it was."""
    ago = parse_seconds(text.strip().removesuffix(" ago"))
    if ago is not None:
        return now - timedelta(seconds=ago)
    try:
        time = parse_time(text, option).time
    except InvalidRequest:
        time = None
    if time is None:
        raise InvalidRequest(
            f"{option} must be a time like 2026-01-31T12:00:00+00:00, or how long ago it was, like"
            f" 24h, not {text!r}"
        )
    return time.astimezone(UTC)


def make_range(start: str | None, end: str | None, bucket: str, *, now: datetime) -> Range:
    """Return the range in whole buckets. By default the last day, up to the running bucket."""
    bucket_s = parse_length(bucket, "--bucket")
    last = now if end is None else parse_moment(end, "--to", now=now)
    first = last - timedelta(days=1)
    if start is not None:
        first = parse_moment(start, "--from", now=now)
    if first >= last:
        raise InvalidRequest(
            f"--from {first.isoformat()} is not before --to {last.isoformat()}; swap them"
        )
    # Without an end the running bucket is left out: tomorrow it would have another content.
    whole = Range(_floor(first, bucket_s), _floor(last, bucket_s, is_up=end is not None), bucket_s)
    if whole.buckets < 1:
        raise InvalidRequest(f"no bucket of --bucket {bucket} has ended since --from; shorten it")
    if whole.buckets > BUCKETS_MAX:
        raise InvalidRequest(
            f"--bucket {bucket} cuts the range into {whole.buckets} pieces, and {BUCKETS_MAX} are"
            " the most; make it longer or the range shorter"
        )
    return whole


def _floor(time: datetime, step_s: int, *, is_up: bool = False) -> datetime:
    micros = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    step = step_s * 1_000_000
    count = -(-micros // step) if is_up else micros // step
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=count * step)
