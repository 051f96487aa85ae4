"""What jobs on Spark have found."""

from __future__ import annotations

from typing import Any

from queenmq.wire.shape import Answer, Pagination


class PipelineRun(
    Answer,
    rename={
        "start": "from",
        "end": "to",
        "bucket_seconds": "bucketSeconds",
        "finished_at": "finishedAt",
    },
):
    """A run of the analytics job."""

    run: str
    scope: dict[str, Any]
    start: str
    end: str
    bucket_seconds: int
    messages: int
    finished_at: str


class PipelineRunList(Answer):
    """Runs, newest first, and the tables that each has."""

    runs: list[PipelineRun]
    tables: list[str]


class PipelineTable(Answer):
    """A page of one table of a run. The columns of a row depend on the table."""

    run: PipelineRun
    table: str
    rows: list[dict[str, Any]]
    pagination: Pagination
