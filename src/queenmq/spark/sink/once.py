"""Writes the frames of `foreachBatch` to queues, each batch of the stream once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_once(frame: DataFrame, batch_id: int, *, name: str | None = None, **options: str) -> None:
    """Write the frame of a `foreachBatch`, with the promises that the sink gives to a stream.

    The options are those of the sink. A batch that Spark runs again adds nothing, and has to have
    the same rows. A function that writes several frames gives each a name of its own:

        def write(frame, batch_id):
            write_once(totals(frame), batch_id, name="totals", url=url, queue="totals")
            write_once(alarms(frame), batch_id, name="alarms", url=url, queue="alarms")
    """
    writer = frame.write.format("queen").mode("append").options(**options)
    if name is not None:
        writer = writer.option("writeId", name)
    writer.option("batchId", str(batch_id)).save()
