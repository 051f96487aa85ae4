"""Computes the content of windows in plain Python over the whole source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple


class Event(NamedTuple):
    """A message of the source: when it happened, whose it is, and what counts."""

    at_ms: int
    key: str
    value: int


#: Of each (key, window start): how many events, and their sum.
Windows = dict[tuple[str, int], tuple[int, int]]


def fixed_windows(events: Iterable[Event], *, size_ms: int, slide_ms: int | None = None) -> Windows:
    """Tumbling windows, or sliding ones that begin every `slide_ms`."""
    slide = slide_ms or size_ms
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for event in events:
        start = event.at_ms - event.at_ms % slide
        while start > event.at_ms - size_ms:
            found[event.key, start].append(event.value)
            start -= slide
    return {place: (len(values), sum(values)) for place, values in found.items()}


def session_windows(events: Iterable[Event], *, gap_ms: int) -> Windows:
    """Sessions that end when nothing of the key has happened for longer than the gap."""
    found: Windows = {}
    open_at: dict[str, tuple[int, int]] = {}
    for event in sorted(events):
        start, last = open_at.get(event.key, (event.at_ms, event.at_ms))
        if event.at_ms > last + gap_ms:
            start = event.at_ms
        open_at[event.key] = (start, event.at_ms)
        count, total = found.get((event.key, start), (0, 0))
        found[event.key, start] = (count + 1, total + event.value)
    return found
