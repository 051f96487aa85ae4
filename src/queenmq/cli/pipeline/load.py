"""`queen pipeline load`: files to a queue in bulk."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from queenmq.cli.pipeline.checks import check_inputs, check_keys
from queenmq.cli.pipeline.frame import Common, job_command
from queenmq.spark.jobs.job import Job


@job_command
def load(
    common: Common,
    inputs: Annotated[list[str], typer.Argument(help="Files, folders, or patterns of them.")],
    queue: Annotated[str, typer.Option(help="The queue that gets the messages.")],
    input_format: Annotated[
        Literal["parquet", "json", "csv"] | None,
        typer.Option("--format", help="Format of the files; by default from their names."),
    ] = None,
    partition_column: Annotated[
        str | None, typer.Option(help="The column with the name of the partition.")
    ] = None,
    partition: Annotated[
        str | None, typer.Option(help="One partition for all rows; by default: Default.")
    ] = None,
    transaction_id_column: Annotated[
        str | None,
        typer.Option(help="The column with the transaction id; by default from file and row."),
    ] = None,
    payload_column: Annotated[
        str | None, typer.Option(help="The column with the message; by default the whole row.")
    ] = None,
    sort_column: Annotated[
        list[str] | None,
        typer.Option(help="Order by this column, repeatable; by default as in the files."),
    ] = None,
    delimiter: Annotated[str, typer.Option(help="Delimiter between CSV columns.")] = ",",
    on_error: Annotated[
        Literal["fail", "deadletter"], typer.Option(help="What to do with a bad row.")
    ] = "fail",
    dead_letter_queue: Annotated[
        str | None, typer.Option(help="Queue for bad rows; by default QUEUE.deadletter.")
    ] = None,
    batch_rows: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Messages per transaction.")
    ] = 100_000,
    name: Annotated[str, typer.Option(help="Another name loads the same rows once more.")] = "",
    encryption_keys: Annotated[
        str | None, typer.Option(help="The file with the keys of encrypted queues.")
    ] = None,
) -> Job:
    """Load Parquet files, JSON lines or CSV into a queue. A second run adds nothing.

    Example: queen pipeline load old-orders.jsonl --queue orders --partition-column customer
    """
    from queenmq.spark.jobs.load.job import Load
    from queenmq.spark.jobs.load.options import LoadOptions, find_format

    job = Load(
        LoadOptions(
            url=common.url(),
            inputs=tuple(inputs),
            format=find_format(inputs, input_format),
            queue=queue,
            partition=partition,
            partition_column=partition_column,
            transaction_id_column=transaction_id_column,
            payload_column=payload_column,
            sort_columns=tuple(sort_column or ()),
            delimiter=delimiter,
            on_error=on_error,
            dead_letter_queue=dead_letter_queue,
            batch_rows=batch_rows,
            name=name,
            key_file=encryption_keys,
        )
    )
    check_inputs(inputs)
    check_keys(common.url(), [queue, dead_letter_queue], encryption_keys)
    return job
