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


class Progress(Protocol):
    """Told how far a job is; whether anybody watches is not the job's business."""

    def report(self, what: str, done: int | None = None, total: int | None = None) -> None:
        """Report what is being done, and how much of it is done if that can be counted."""


class Silent:
    """Discards progress reports."""

    def report(self, what: str, done: int | None = None, total: int | None = None) -> None:
        """Report what is being done, and how much of it is done if that can be counted."""


class Job(Protocol):
    """One run of a job, with its options already checked."""

    def plan(self, spark: SparkSession) -> Summary:
        """Return what `run` would do. Reads only."""

    def run(self, spark: SparkSession, progress: Progress) -> Summary:
        """Do it. Killed at any point and run again, it has done it once."""
