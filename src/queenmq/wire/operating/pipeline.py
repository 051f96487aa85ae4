"""Results of jobs on Spark."""

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


class JobRun(Answer, kw_only=True):
    """A run of a job on Spark: archive, load, replay, analytics, audit or stream."""

    run: str
    job: str
    options: dict[str, Any]
    started_at: str
    finished_at: str | None
    #: running, done, found (done, and something is wrong), failed, or lost (killed).
    outcome: str
    figures: dict[str, Any]
    error: str | None


class JobRunList(Answer):
    """Runs of jobs, newest first."""

    runs: list[JobRun]
    pagination: Pagination


class JobTable(Answer):
    """The first rows of a table of a run, and how many rows it had."""

    columns: list[str]
    rows: list[list[Any]]
    total: int


class JobRunDetail(JobRun, kw_only=True):
    """A run with its tables: queues, checks, findings."""

    tables: dict[str, JobTable]


class ArchivedQueue(Answer):
    """The progress of a queue's archive in a lake."""

    queue: str
    lake: str
    location: str
    #: Push time of the oldest message that is not in the lake yet, or None.
    waiting_since: str | None
    updated_at: str


class ArchivedDay(Answer):
    """Messages pushed on a day, and those pushed to queues that are archived past that day."""

    day: str
    pushed: int
    archived: int


class ArchiveCoverage(Answer):
    """Positions of the archive job, and the days that they cover."""

    queues: list[ArchivedQueue]
    days: list[ArchivedDay]
