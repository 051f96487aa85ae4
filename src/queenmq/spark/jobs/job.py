"""The interface of every job, for the command line and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Table:
    """Rows of a summary: per queue, per finding."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True)
class Summary:
    """The result of a job, or of its plan. Everything in it can be written as JSON."""

    job: str
    #: One line each, in this order.
    figures: Mapping[str, Any]
    tables: Mapping[str, Table] = field(default_factory=dict)
    #: False: the job did its work and found something wrong.
    is_ok: bool = True


@dataclass(frozen=True)
class About:
    """The job of a run, its database, and the options that distinguish runs."""

    job: str
    url: str
    options: Mapping[str, Any]


class Progress(Protocol):
    """Receives the progress of a job."""

    def report(self, what: str, done: int | None = None, total: int | None = None) -> None:
        """Report the current step, and its progress if it can be counted."""


class Silent:
    """Discards progress reports."""

    def report(self, what: str, done: int | None = None, total: int | None = None) -> None:
        """Report the current step, and its progress if it can be counted."""


class Job(Protocol):
    """One run of a job, with its options already checked."""

    def plan(self, spark: SparkSession) -> Summary:
        """Return what `run` would do. Reads only."""

    def about(self) -> About:
        """Return the name of the job, its database and its options."""

    def run(self, spark: SparkSession, progress: Progress) -> Summary:
        """Run the job. It may be killed at any point and repeated without duplicates."""
