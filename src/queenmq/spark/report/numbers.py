"""Formats numbers, sizes, durations and times, and computes the ticks of an axis. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

#: How a value is written.
Format = Callable[[float], str]


def plain(value: float) -> str:
    """Format a number: 1,234 up to ten thousand, then 12.3k, 4.5M."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{_short(value / (1e3 if letter == 'k' else limit))}{letter}"
    return f"{value:,.0f}" if float(value).is_integer() else _short(value)


def size(value: float) -> str:
    """Format bytes."""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if abs(value) >= 1024**power:
            return f"{_short(value / 1024**power)} {unit}"
    return f"{value:,.0f} B"


def duration(value: float) -> str:
    """Format milliseconds."""
    for limit, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if abs(value) >= limit:
            return f"{_short(value / limit)} {unit}"
    return f"{_short(value)} ms"


def percent(value: float) -> str:
    """Return a share of one."""
    return f"{value * 100:.1f} %"


def moment(time: datetime) -> str:
    """Return a time in UTC."""
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _short(value: float) -> str:
    """Format with at most three digits where there is a fraction."""
    places = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def ticks(highest: float, *, wanted: int = 4, is_whole: bool = False) -> list[float]:
    """Round values from 0 to at least the highest."""
    if highest <= 0:
        return [0.0, 1.0]
    rough = highest / wanted
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
    if is_whole:
        step = max(1.0, math.ceil(step))
    count = math.ceil(highest / step - 1e-9)
    return [step * number for number in range(max(1, count) + 1)]


def time_labels(times: Sequence[datetime], *, wanted: int = 6) -> list[tuple[int, str]]:
    """Return the times that stand on the axis, each with its place and text."""
    if not times:
        return []
    every = max(1, math.ceil(len(times) / wanted))
    is_long = times[-1] - times[0] >= timedelta(days=2)
    form = (
        "%b %d" if is_long and _are_days(times[::every]) else "%b %d %H:%M" if is_long else "%H:%M"
    )
    return [(place, times[place].strftime(form)) for place in range(0, len(times), every)]


def _are_days(times: Sequence[datetime]) -> bool:
    return all((time.hour, time.minute) == (0, 0) for time in times)
