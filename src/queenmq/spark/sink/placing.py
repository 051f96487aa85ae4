"""Says which Queen partition a row goes to: by a column, a hash of a key, or an expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from queenmq.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_COUNT_MAX = 1_000_000


def with_partition(
    df: DataFrame,
    *,
    column: str | None = None,
    key: str | Sequence[str] | None = None,
    count: int | None = None,
    expression: str | Column | None = None,
) -> DataFrame:
    """Return the same rows with a column `partition`, as the sink takes it.

    Give one of: `column`, whose values name the partitions; `key`, one or more columns whose hash
    chooses one of `count` partitions named 0, 1, 2 ...; `expression`, SQL or a Column. Rows of one
    key go to one partition whatever the number types of its columns are, for as long as `count`
    stays the same.
    """
    from pyspark.sql import functions as F

    ways = {"column": column, "key": key, "expression": expression}
    given = [name for name, value in ways.items() if value is not None]
    if len(given) != 1:
        raise InvalidRequest(
            f"with_partition takes one of column, key and expression, not"
            f" {' and '.join(given) or 'none'}"
        )
    if (key is None) != (count is None):
        raise InvalidRequest("with_partition takes key and count together; give both or neither")
    if column is not None:
        place = F.col(column)
    elif key is not None:
        place = _hash([key] if isinstance(key, str) else list(key), count or 0)
    elif isinstance(expression, str):
        place = F.expr(expression)
    else:
        assert expression is not None
        place = expression
    return df.withColumn("partition", place.cast("string"))


def _hash(names: Sequence[str], count: int) -> Column:
    from pyspark.sql import functions as F

    if not names:
        raise InvalidRequest("key of with_partition has no column; name one or more")
    if not 1 <= count <= _COUNT_MAX:
        raise InvalidRequest(
            f"count of with_partition is {count}; use 1 to {_COUNT_MAX} partitions"
        )
    # As texts: a number has another hash as int than as bigint. Null is a key like any other, and
    # is not passed over, as the hash would do.
    texts = [
        F.coalesce(F.concat(F.lit("="), F.col(name).cast("string")), F.lit("")) for name in names
    ]
    return F.pmod(F.xxhash64(*texts), F.lit(count))
