"""Writes many rows to queues in batches of bounded size, in one order, each batch once.

The rows are put into one order and cut into batches along it. A batch is named by a digest of its
rows: if a batch with this name exists, an earlier run has written it, and it is skipped. So a
repeated run adds nothing, and a resumed one adds the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from queenmq.clock import now_ms
from queenmq.spark.database.sql_text import load
from queenmq.spark.jobs.job import Progress
from queenmq.spark.jobs.stopping import stop_requests
from queenmq.spark.runtime.failures import spark_failures
from queenmq.spark.sink.options import SEALED_FOR

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: The columns of rows that the sink writes, of which some may be missing.
COLUMNS = ("queue", "partition", "transaction_id", "trace_id", "payload", SEALED_FOR)
#: Where a row stands: the number of its task, and its place there in the lower bits.
_PLACE = "_place"
_TASK_BITS = 33


@dataclass(frozen=True)
class Batch:
    """Rows that are written together."""

    rows: int
    #: The name under which the database knows it.
    name: str
    #: The places of its rows: from, up to.
    ranges: tuple[tuple[int, int], ...]


@dataclass
class Batches:
    """Rows in their order, kept by Spark while they are written."""

    rows: DataFrame
    all: list[Batch] = field(default_factory=list)

    @property
    def messages(self) -> int:
        return sum(batch.rows for batch in self.all)

    def of(self, batch: Batch) -> DataFrame:
        """Return the rows of one, in order."""
        from pyspark.sql import functions as F

        place = F.col(_PLACE)
        chosen = F.lit(False)
        for start, end in batch.ranges:
            chosen = chosen | ((place >= F.lit(start)) & (place < F.lit(end)))
        return self.rows.where(chosen).drop(_PLACE)


@dataclass(frozen=True)
class Written:
    """The result of writing batches."""

    batches: int
    messages: int
    #: Written by an earlier run.
    messages_before: int
    #: Not written yet, because a stop was requested.
    messages_left: int

    @property
    def figures(self) -> dict[str, int]:
        """Return the figures for a summary."""
        return {
            "messages": self.messages + self.messages_before + self.messages_left,
            "written": self.messages,
            "written by a run before": self.messages_before,
            "left; run it again": self.messages_left,
            "batches": self.batches,
        }


@contextmanager
def cut(
    spark: SparkSession, rows: DataFrame, order: Sequence[str], *, size: int, salt: str
) -> Iterator[Batches]:
    """Order rows by these columns, which distinguish any two rows, and cut them into batches.

    `salt` separates rows that are written again on purpose.
    """
    from pyspark.sql import functions as F

    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
    placed = (
        rows.repartitionByRange(tasks, *order)
        .sortWithinPartitions(*order)
        .select(
            *(name for name in COLUMNS if name in rows.columns),
            F.monotonically_increasing_id().alias(_PLACE),
        )
        .persist()
    )
    try:
        yield Batches(placed, _find(placed, size=size, salt=salt))
    finally:
        placed.unpersist()


def _find(placed: DataFrame, *, size: int, salt: str) -> list[Batch]:
    from pyspark.sql import functions as F

    task = F.shiftright(_PLACE, _TASK_BITS).cast("int")
    counts = {row[0]: row[1] for row in placed.groupBy(task).count().collect()}
    if not counts:
        return []
    per_task = [counts.get(number, 0) for number in range(max(counts) + 1)]
    offsets = [0, *accumulate(per_task)]
    number = F.floor(_rank(task, offsets) / size).cast("long")
    hashed = F.xxhash64(*(name for name in placed.columns if name != _PLACE))
    digests = (
        placed.groupBy(number.alias("number"))
        .agg(F.count("*").alias("rows"), F.sum(hashed.cast("decimal(38,0)")).cast("string"))
        .collect()
    )
    return [
        Batch(rows, _name(salt, rows, digest), tuple(_ranges(offsets, place * size, rows)))
        for place, rows, digest in sorted(digests)
    ]


def _rank(task: Column, offsets: Sequence[int]) -> Column:
    """Return the place of a row among all."""
    from pyspark.sql import functions as F

    starts = F.array(*(F.lit(offset).cast("long") for offset in offsets))
    within = F.col(_PLACE).bitwiseAND(F.lit((1 << _TASK_BITS) - 1))
    return F.element_at(starts, task + 1) + within


def _ranges(offsets: Sequence[int], first: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield the places of that many rows from the first on, task by task."""
    for task, (start, end) in enumerate(pairwise(offsets)):
        low, high = max(first, start), min(first + rows, end)
        if low < high:
            base = task << _TASK_BITS
            yield base + low - start, base + high - start


def _name(salt: str, rows: int, digest: str) -> str:
    whole = hashlib.sha256("\n".join((salt, str(rows), digest)).encode())
    return f"{salt.partition(':')[0]}:{whole.hexdigest()[:40]}"


def written_before(url: str, batches: Sequence[Batch]) -> set[str]:
    """Return names of the batches that were written."""
    from queenmq.spark.database.connection import Database

    names = {f"write:{batch.name}": batch.name for batch in batches}
    with Database(url) as database:
        rows = database.rows(load("bulk")["done"], sorted(names))
    return {names[row["name"]] for row in rows}


class Pace:
    """Keeps writing to so many messages a second, reckoned from the start; None: no limit."""

    def __init__(self, rate: float | None, clock_ms: Callable[[], float] = now_ms) -> None:
        self._rate = rate
        self._clock_ms = clock_ms
        self._began_ms = clock_ms()
        self._messages = 0

    def pause_s(self, messages: int) -> float:
        """Return how long to wait now that so many more were written."""
        self._messages += messages
        if self._rate is None:
            return 0.0
        due_ms = self._began_ms + self._messages / self._rate * 1000
        return max(0.0, (due_ms - self._clock_ms()) / 1000)


def write(
    batches: Batches,
    options: Mapping[str, str],
    progress: Progress,
    *,
    rate: float | None = None,
) -> Written:
    """Write the missing batches, each in its own transaction, until all are done or a stop is
    requested.
    """
    before = written_before(options["url"], batches.all)
    skipped = sum(batch.rows for batch in batches.all if batch.name in before)
    done = 0
    pace = Pace(rate)
    with stop_requests() as stop:
        for batch in batches.all:
            progress.report("writing messages", done + skipped, batches.messages)
            if stop.is_set():
                break
            if batch.name in before:
                continue
            with spark_failures("a batch was not written"):
                writer = batches.of(batch).write.format("queen").mode("append")
                writer.options(**options, writeId=batch.name).save()
            done += batch.rows
            stop.wait(pace.pause_s(batch.rows))
    progress.report("writing messages", done + skipped, batches.messages)
    return Written(len(batches.all), done, skipped, batches.messages - done - skipped)
