"""Medians, percentiles and how they are written: always with the spread they came from."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def with_spread(values: Sequence[float], unit: str, *, digits: int = 2) -> str:
    """The median of rounds, and the lowest and highest of them."""
    low, middle, high = min(values), median(values), max(values)
    return f"{middle:,.{digits}f}{unit} ({low:,.{digits}f} to {high:,.{digits}f})"


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Round by round, so that a slow moment of the machine hits both sides of a ratio."""
    return [one / other for one, other in zip(above, below, strict=True)]
