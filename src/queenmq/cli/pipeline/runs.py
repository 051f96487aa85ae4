"""`queen pipeline runs`: what jobs on Spark did, as the server has it. Needs no Spark."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from queenmq import wire
from queenmq.cli.display.output import Column, cell
from queenmq.cli.display.safe import printable, say
from queenmq.cli.display.times import when
from queenmq.cli.session import Session

#: Figures of one line. `queen pipeline runs RUN` prints all.
_FIGURES = 3


def runs(
    session: Session,
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Show this run with its tables.")
    ] = None,
    job: Annotated[str | None, typer.Option(help="List runs of this job only.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Print at most this many.")] = 20,
) -> None:
    """List runs of all jobs, newest first, or show one with its figures and findings.

    Example: queen pipeline runs --job audit
    """
    if run is not None:
        _show(session, session.queen.pipeline.get_job_run(run))
        return
    found = session.queen.pipeline.list_job_runs(job=job, limit=limit).runs
    session.out.rows(found, _COLUMNS)


def _show(session: Session, run: wire.JobRunDetail) -> None:
    if not session.out.is_human:
        session.out.value(run)
        return
    head = [Column(name, name.upper()) for name in ("run", "job", "outcome", "error")]
    times = [Column("startedAt", "STARTED", when), Column("finishedAt", "FINISHED", when)]
    figures = [
        Column(f"{part}.{name}", name.upper())
        for part, values in (("options", run.options), ("figures", run.figures))
        for name in values
        if "." not in name
    ]
    session.out.print_fields(run, [*head, *times, *figures])
    for title, table in run.tables.items():
        if table.rows:
            say(f"\n{printable(title)}")
            columns = [Column(name, name.upper()) for name in table.columns]
            session.out.rows(
                [dict(zip(table.columns, row, strict=True)) for row in table.rows], columns
            )
            if table.total > len(table.rows):
                session.out.note(f"{len(table.rows)} of {table.total}; the job printed all of them")


def _format_figures(figures: Any) -> str:
    shown = [f"{name} {value}" for name, value in figures.items() if isinstance(value, int)]
    return ", ".join(shown[:_FIGURES]) or cell(None)


_COLUMNS = [
    Column("run", "RUN"),
    Column("job", "JOB"),
    Column("startedAt", "STARTED", when),
    Column("finishedAt", "FINISHED", when, rank=3),
    Column("outcome", "OUTCOME"),
    Column("figures", "FIGURES", _format_figures, rank=2),
    Column("error", "ERROR", is_text=True),
]
