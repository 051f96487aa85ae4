"""Brings the rows of a Queen partition into one Spark task, where their order is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queenmq.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEYS = ("queue", "partition")


def by_partition(df: DataFrame, *sort: str) -> DataFrame:
    """Return the same rows, those of a Queen partition in one task, sorted there by these columns.

    A stream cannot be sorted by Spark: give its writer the option `sortWithin` instead.
    """
    if sort and df.isStreaming:
        raise InvalidRequest(
            "a stream cannot be sorted before it is written; use the writer's option sortWithin"
        )
    keys = [name for name in _KEYS if name in df.columns]
    gathered = df.repartition(*keys) if keys else df.repartition(1)
    return gathered.sortWithinPartitions(*keys, *sort) if sort else gathered
