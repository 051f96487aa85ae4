"""Writes down the runs of jobs for the API: start, end, outcome, figures and findings.

No job depends on it. Where the role may not write, the database is read-only or away, the job goes
on, and its run is not listed.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from queenmq.errors import QueenError
from queenmq.spark.database.connection import Database
from queenmq.spark.database.sql_text import load
from queenmq.spark.jobs.job import About, Summary, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = logging.getLogger(__name__)

#: Between two signs of life.
_BEAT_S = 60.0
#: Rows of one table, and characters of a text in it. The job prints or writes all of them.
ROWS_MAX = 100
TEXT_MAX = 500


class Described(Protocol):
    """A job that can describe itself."""

    def about(self) -> About:
        """Return the name of the job, its database and its options."""


J = TypeVar("J", bound=Described)
P = ParamSpec("P")


def recorded(
    run: Callable[Concatenate[J, P], Summary],
) -> Callable[Concatenate[J, P], Summary]:
    """Make a job's `run` write down when it began and how it ended."""

    @functools.wraps(run)
    def run_recorded(job: J, /, *args: P.args, **kwargs: P.kwargs) -> Summary:
        return record_run(job.about(), lambda: run(job, *args, **kwargs))

    return run_recorded


def record_run(
    about: About, work: Callable[[], Summary], *, warn: Callable[[str], None] | None = None
) -> Summary:
    """Do the work and write down when it began and how it ended.

    `warn` gets one sentence, once, if that cannot be written down. The default logs it.
    """
    record = _Record(about, warn or _log)
    with record.while_running():
        try:
            summary = work()
        except BaseException as error:
            record.note("failed", error=_sentence(error))
            raise
        record.note(
            "done" if summary.is_ok else "found",
            figures={name: _plain(value) for name, value in summary.figures.items()},
            tables={name: _rows(table) for name, table in summary.tables.items()},
        )
        return summary


def _log(reason: str) -> None:
    logger.info("The run of the job is not listed: %s", reason)


class _Record:
    """The row of one run; nothing, where it could not be made."""

    def __init__(self, about: About, warn: Callable[[str], None]) -> None:
        self._url = about.url
        self._warn = warn
        self._has_warned = False
        self._sql = load("runs")
        self._id: str | None = None
        options = {name: _plain(value) for name, value in about.options.items() if value}
        found = self._ask("start", {"job": about.job, "options": options})
        if found is not None:
            self._id = found["id"]

    @contextmanager
    def while_running(self) -> Iterator[None]:
        """Note signs of life in a thread, since a job may be silent for hours."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(_BEAT_S):
                self.note("running")

        thread = threading.Thread(target=beat, name="queen-run", daemon=True)
        if self._id is not None:
            thread.start()
        try:
            yield
        finally:
            ended.set()

    def note(
        self,
        outcome: str,
        *,
        figures: Mapping[str, Any] | None = None,
        tables: Mapping[str, Any] | None = None,
        error: str | None = None,
    ) -> None:
        """Note how the run is."""
        if self._id is not None:
            said = {"figures": figures or {}, "tables": tables or {}, "error": error}
            self._ask("note", {"id": self._id, "outcome": outcome, **said})

    def _ask(self, name: str, parameter: Mapping[str, Any]) -> dict[str, Any] | None:
        try:
            with Database(self._url) as database:
                return database.rows(self._sql[name], parameter)[0]
        except QueenError as error:
            if not self._has_warned:
                self._warn(_sentence(error))
            self._has_warned = True
            return None


def _sentence(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return text or type(error).__name__


def _rows(table: Table) -> dict[str, Any]:
    rows = [[_plain(value) for value in row] for row in table.rows[:ROWS_MAX]]
    return {"columns": list(table.columns), "rows": rows, "total": len(table.rows)}


def _plain(value: Any) -> Any:
    """Return a value that JSON has, and PostgreSQL takes."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return str(value).replace("\0", "")[:TEXT_MAX]
