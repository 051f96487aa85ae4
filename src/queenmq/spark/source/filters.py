"""Decides which filters the database can apply, and the resulting selection. Pure.

A filter that the database applies must mean exactly the same in PostgreSQL as in Spark, because
Spark does not check the rows again. The source leaves filters that might differ to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

Name = TypeVar("Name")
#: What fits into a bigint.
_SEQ = range(-(2**63), 2**63)
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class Pushed:
    """The filters that the database applies so far. None means no filter."""

    queues: frozenset[str] | None = None
    partitions: frozenset[str] | None = None
    partition_ids: frozenset[UUID] | None = None
    seq_from: int | None = None
    seq_to: int | None = None
    time_from: datetime | None = None
    time_before: datetime | None = None


def push(pushed: Pushed, filter: Filter) -> Pushed | None:
    """Add one more filter, or return None if the database cannot apply it."""
    if not isinstance(
        filter, EqualTo | In | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual
    ):
        return None
    taker = _TAKERS.get(filter.attribute)
    return taker(pushed, filter) if taker else None


def _values(filter: Filter) -> tuple[Any, ...] | None:
    if isinstance(filter, EqualTo):
        return (filter.value,)
    return tuple(filter.value) if isinstance(filter, In) else None


def _take_queue(pushed: Pushed, filter: Filter) -> Pushed | None:
    names = _texts(filter)
    return replace(pushed, queues=_both(pushed.queues, names)) if names else None


def _take_partition(pushed: Pushed, filter: Filter) -> Pushed | None:
    names = _texts(filter)
    return replace(pushed, partitions=_both(pushed.partitions, names)) if names else None


def _take_partition_id(pushed: Pushed, filter: Filter) -> Pushed | None:
    texts = _texts(filter)
    if not texts:
        return None
    try:
        ids = {text: UUID(text) for text in texts}
    except ValueError:
        return None
    if any(str(value) != text for text, value in ids.items()):
        # Upper case equals no partition_id in Spark, and would in PostgreSQL.
        return None
    return replace(pushed, partition_ids=_both(pushed.partition_ids, ids.values()))


def _take_seq(pushed: Pushed, filter: Filter) -> Pushed | None:
    bound = getattr(filter, "value", None)
    if isinstance(filter, In) or not isinstance(bound, int) or bound not in _SEQ:
        return None
    low, high = _range(filter, bound, 1)
    return replace(
        pushed,
        seq_from=_higher(pushed.seq_from, low),
        seq_to=_lower(pushed.seq_to, None if high is None else high - 1),
    )


def _take_time(pushed: Pushed, filter: Filter) -> Pushed | None:
    bound = getattr(filter, "value", None)
    if isinstance(filter, In) or not isinstance(bound, datetime) or bound.tzinfo is None:
        return None
    try:
        low, high = _range(filter, bound, _TICK)
    except OverflowError:
        return None
    return replace(
        pushed,
        time_from=_higher(pushed.time_from, low),
        time_before=_lower(pushed.time_before, high),
    )


def _range(filter: Filter, bound: Any, step: Any) -> tuple[Any, Any]:
    """Return the filter as `low <= value < high`."""
    if isinstance(filter, GreaterThan):
        return bound + step, None
    if isinstance(filter, GreaterThanOrEqual):
        return bound, None
    if isinstance(filter, LessThan):
        return None, bound
    if isinstance(filter, LessThanOrEqual):
        return None, bound + step
    return bound, bound + step


def _texts(filter: Filter) -> frozenset[str] | None:
    values = _values(filter)
    if not values or not all(isinstance(value, str) for value in values):
        return None
    return frozenset(values)


def _both(known: frozenset[Name] | None, more: Iterable[Name]) -> frozenset[Name]:
    return frozenset(more) if known is None else known & frozenset(more)


def _higher(known: Any, more: Any) -> Any:
    return max((value for value in (known, more) if value is not None), default=None)


def _lower(known: Any, more: Any) -> Any:
    return min((value for value in (known, more) if value is not None), default=None)


_TAKERS: dict[tuple[str, ...], Callable[[Pushed, Filter], Pushed | None]] = {
    ("queue",): _take_queue,
    ("partition",): _take_partition,
    ("partition_id",): _take_partition_id,
    ("seq",): _take_seq,
    ("created_at",): _take_time,
}
#: The columns on which the database applies filters.
COLUMNS = tuple(name for (name,) in _TAKERS)
