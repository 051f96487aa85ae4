"""What every job looks like from outside, whoever runs it: the command line or a program."""

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
    """What a job did, or with a plan, would do. Everything in it can be written as JSON."""

    job: str
    #: One line each, in this order.
    figures: Mapping[str, Any]
    tables: Mapping[str, Table] = field(default_factory=dict)
    #: False: the job did its work and found something wrong.
    is_ok: bool = True


class Progress(Protocol):
    """Told how far a job is; whether anybody watches is not the job's business."""

    def tell(self, what: str, done: int | None = None, total: int | None = None) -> None:
        """`what` is being done; so much of it is, if that can be counted."""


class Silent:
    """A progress that nobody watches."""

    def tell(self, what: str, done: int | None = None, total: int | None = None) -> None:
        """Say nothing."""


class Job(Protocol):
    """One run of a job, with its options already checked."""

    def plan(self, spark: SparkSession) -> Summary:
        """What `run` would do. Reads only."""

    def run(self, spark: SparkSession, progress: Progress) -> Summary:
        """Do it. Killed at any point and run again, it has done it once."""
