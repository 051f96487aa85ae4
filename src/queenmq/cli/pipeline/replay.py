"""`queen pipeline replay`: messages of a lake to queues again."""

from __future__ import annotations

from typing import Annotated

import typer

from queenmq.cli.pipeline.checks import check_keys, check_lake
from queenmq.cli.pipeline.frame import Common, job_command
from queenmq.spark.jobs.job import Job


@job_command
def replay(
    common: Common,
    lake: Annotated[str, typer.Option(help="Folder or URL of the lake.")],
    queue: Annotated[
        list[str] | None, typer.Option(help="A queue of the lake, repeatable; by default all.")
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option(help="A partition, repeatable; by default all.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only messages from this time on: 2030-01-31T12:00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only messages before this time.")] = None,
    where: Annotated[
        str | None, typer.Option(help="A condition in Spark SQL, on the columns of the lake.")
    ] = None,
    target_queue: Annotated[
        str | None, typer.Option(help="Queue to push to; by default the original one.")
    ] = None,
    partition_expression: Annotated[
        str | None, typer.Option(help="Partition, as Spark SQL; by default the original one.")
    ] = None,
    fresh_ids: Annotated[
        bool, typer.Option("--fresh-ids", help="New transaction ids; by default the old ones.")
    ] = False,
    rate: Annotated[float | None, typer.Option(help="Messages per second.")] = None,
    batch_rows: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Messages per transaction.")
    ] = 100_000,
    name: Annotated[
        str, typer.Option(help="Name of this replay. A new name replays the same messages again.")
    ] = "",
    encryption_keys: Annotated[
        str | None, typer.Option(help="The file with the keys of encrypted queues.")
    ] = None,
) -> Job:
    """Write archived messages to queues again, in their order. A second run adds nothing.

    Example: queen pipeline replay --lake ./lake --queue orders --target-queue orders-again
    """
    from queenmq.spark.jobs.replay.job import Replay
    from queenmq.spark.jobs.replay.options import ReplayOptions, parse_moment
    from queenmq.spark.lake.layout import Lake

    job = Replay(
        ReplayOptions(
            url=common.url(),
            lake=Lake.at(lake),
            queues=tuple(queue or ()),
            partitions=tuple(partition or ()),
            since=parse_moment("--since", since),
            until=parse_moment("--until", until),
            where=where,
            target_queue=target_queue,
            partition_expression=partition_expression,
            has_fresh_ids=fresh_ids,
            rate=rate,
            batch_rows=batch_rows,
            name=name,
            key_file=encryption_keys,
        )
    )
    check_lake(lake, queue or ())
    check_keys(common.url(), [target_queue] if target_queue else queue or (), encryption_keys)
    return job
