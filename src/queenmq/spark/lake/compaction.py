"""Merges small files into large ones, queue by queue and day by day.

delta-rs would drop the variant. So Spark rewrites the rows, they are compared with the old ones,
and one commit replaces the files. Readers see the old or the new ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from queenmq.errors import StorageRejected
from queenmq.spark.lake.layout import DataFile
from queenmq.spark.lake.reading import read_files, tallies
from queenmq.spark.lake.table import MessageTable
from queenmq.spark.lake.writing import write_files
from queenmq.spark.runtime.failures import spark_failures

if TYPE_CHECKING:
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

#: A file below this is small.
SMALL_BYTES = 32 * 1024 * 1024
#: A queue has so many small files of a day before they are compacted without being asked for.
MANY = 16
#: Most bytes of one commit, the work that is lost when it is broken off.
_BUNDLE_BYTES = 1024 * 1024 * 1024


def small_files(files: Iterable[DataFile], *, is_thorough: bool) -> Iterator[list[DataFile]]:
    """Yield the small files of each queue and day that has many, oldest days first.

    If thorough, include queues with few files, and files of release 0.1.0 of any size.
    """
    groups: dict[tuple[date, str], list[DataFile]] = defaultdict(list)
    for file in files:
        if file.bytes < SMALL_BYTES or (is_thorough and file.is_of_first_layout):
            groups[file.day, file.queue].append(file)
    for key in sorted(groups):
        group = groups[key]
        is_old = is_thorough and any(file.is_of_first_layout for file in group)
        if is_old or len(group) >= (2 if is_thorough else MANY):
            yield group


def bundles(groups: Iterable[list[DataFile]]) -> Iterator[list[DataFile]]:
    """Yield bundles of several queues and days, up to a bound."""
    bundle: list[DataFile] = []
    for group in groups:
        bundle += group
        if sum(file.bytes for file in bundle) >= _BUNDLE_BYTES:
            yield bundle
            bundle = []
    if bundle:
        yield bundle


def compact(spark: SparkSession, table: MessageTable, files: list[DataFile]) -> MessageTable:
    """Replace these files by fewer ones with the same rows."""
    old = read_files(spark, table.lake, files)
    queues = {file.queue for file in files}
    written = write_files(spark, table.lake, old, queues)
    with spark_failures(
        f"the lake at {table.lake.location} cannot be compacted", is_asked_for=False
    ):
        before, after = _sums(old), _sums(read_files(spark, table.lake, written))
    if before != after:
        raise StorageRejected(
            f"the lake at {table.lake.location} was not compacted: the rows of the new files are"
            " not those of the old ones; check the disk"
        )
    return table.replace(files, written)


def _sums(rows: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in tallies(rows, "queue", "day").collect())
