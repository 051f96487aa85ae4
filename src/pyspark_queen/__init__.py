"""Makes `format("queen")` known to every Spark that has this package on its Python path.

Spark looks for packages whose name begins with `pyspark_` and registers their `DefaultSource`.
Nothing else belongs here: the source itself is in `queenmq.spark`.
"""

from __future__ import annotations

from queenmq.spark.source.data_source import QueenDataSource as DefaultSource

__all__ = ["DefaultSource"]
