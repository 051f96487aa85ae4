"""The lake: messages of queues as a Delta table of Parquet files, and a manifest of what is in it.

    read_messages(spark, "lake")

Delta tables are written and read through delta-rs, which needs no jar; the Parquet files by Spark,
which alone can shred variants. Nothing is read that is not in the table's log, so what a killed job
left behind is never seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queenmq.spark.lake.layout import Lake

if TYPE_CHECKING:
    from queenmq.spark.lake.reading import archived_until, read_messages

__all__ = ["Lake", "archived_until", "read_messages"]


def __getattr__(name: str) -> Any:
    """Load what reads when it is asked for: the pure modules work without the spark extra."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from queenmq.spark.lake import reading

    return getattr(reading, name)
