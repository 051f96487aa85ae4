"""Shows a job's progress and summary on a terminal and in a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from queenmq.cli.display.output import Column, Output, console, progress
from queenmq.cli.display.safe import printable, say
from queenmq.cli.pipeline.pace import Pace

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from queenmq.spark.jobs import job

#: Between two lines of a log about the same thing.
_LOG_EVERY_S = 10.0


class _Watched:
    """A bar, with count, rate and time left where there are any."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task = bars.add_task("", total=None, note="")
        self._pace = Pace()

    def report(self, what: str, done: int | None = None, total: int | None = None) -> None:
        note = self._pace.note(what, done, total, now_s=monotonic())
        self._bars.update(
            self._task, description=printable(what), completed=done or 0, total=total, note=note
        )


class _Logged:
    """A line for each thing that is begun, and now and then how far it is: for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ""
        self._logged_s = 0.0
        self._pace = Pace()

    def report(self, what: str, done: int | None = None, total: int | None = None) -> None:
        now = monotonic()
        note = self._pace.note(what, done, total, now_s=now)
        is_new = what != self._last
        if is_new or (note and now >= self._logged_s + _LOG_EVERY_S):
            self._last, self._logged_s = what, now
            shown = printable(what)
            self._console.print(f"... {shown}: {note}" if note and not is_new else f"... {shown}")


@contextmanager
def show_progress(*, is_quiet: bool) -> Iterator[job.Progress]:
    """Show progress on standard error, which leaves standard output to the summary."""
    terminal = console(stderr=True)
    terminal.quiet = is_quiet
    if not terminal.is_terminal:
        yield _Logged(terminal)
        return
    with progress(is_wanted=not is_quiet) as bars:
        yield _Watched(bars)


def print_summary(summary: job.Summary, *, is_plan: bool) -> None:
    """Print the figures line by line, then the tables."""
    say(f"{summary.job}: plan, nothing was changed" if is_plan else f"{summary.job}: done")
    width = max((len(name) for name in summary.figures), default=0)
    for name, value in summary.figures.items():
        say(printable(f"  {name.ljust(width)}  {_text(value)}".rstrip()))
    for title, table in summary.tables.items():
        if table.rows:
            say(f"\n{printable(title)}")
            columns = [Column(name, name.upper(), _text) for name in table.columns]
            rows = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
            Output().rows(rows, columns)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2f}" if isinstance(value, float) else "" if value is None else str(value)
