"""A stream from queue to queue on a small cluster, and an archive: processes that are killed.

    python -m tests.support.soak_driver <database url> <checkpoint> <on or once>

Executors are processes, tasks that take long are speculated, and `once` ends when everything that
was there is written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.spark_processes import CLUSTER, SPECULATION, SparkProcess

SOURCE, TARGET = "soak", "soaked"


class SoakArchive(SparkProcess):
    """The archive of the source, without end."""

    def __init__(self, url: str, lake: Path) -> None:
        job = ["queenmq", "pipeline", "archive", "--database-url", url, "--lake", str(lake)]
        how = ["--queue", SOURCE, "--continuous", "--interval", "2", "--quiet"]
        # It shares the machine with everything else.
        super().__init__([*job, *how, "--master", "local[1]"], lake.parent / "archive.log")


class SoakDriver(SparkProcess):
    """A driver with its executors."""

    def __init__(self, url: str, checkpoint: Path, *, is_once: bool = False) -> None:
        how = "once" if is_once else "on"
        super().__init__([__name__, url, str(checkpoint), how], checkpoint.parent / "driver.log")


def main(url: str, checkpoint: str, how: str) -> None:
    import queenmq.spark

    spark = queenmq.spark.session("soak", master=CLUSTER, quick=True, config=SPECULATION)
    spark.sparkContext.setLogLevel("ERROR")
    rows = (
        spark.readStream.format("queen")
        .options(url=url, queue=SOURCE, startingOffsets="earliest", maxMessagesPerTrigger="20000")
        # Retention waits for this group.
        .option("consumerGroup", TARGET)
        .load()
        .select("partition", "seq", "payload")
    )
    writer = (
        queenmq.spark.by_partition(rows)
        .writeStream.format("queen")
        .options(url=url, queue=TARGET, sortWithin="seq", checkpointLocation=checkpoint)
    )
    if how == "once":
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
