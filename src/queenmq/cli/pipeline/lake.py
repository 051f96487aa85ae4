"""`queen pipeline lake ...`: the upkeep of a lake, without Spark.

No command needs a database. Where one is configured, it lists the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from queenmq.cli.display.output import SHAPES, Shape, parse_shape
from queenmq.cli.display.safe import say
from queenmq.cli.exits import NothingThere, UsageProblem
from queenmq.cli.pipeline.frame import Common, show
from queenmq.cli.server.database_url import find_url

if TYPE_CHECKING:
    from queenmq.spark.jobs.job import Summary

app = typer.Typer(help="Describe, verify, optimize and clean up a lake.", no_args_is_help=True)

Place = Annotated[str, typer.Option("--lake", help="Folder or URL of the lake.")]
Dry = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")
]
Format = Annotated[
    Shape,
    typer.Option(
        "--output",
        "-o",
        help=f"How to print the summary: {SHAPES}.",
        parser=parse_shape,
        metavar="FORMAT",
        show_default="table",
    ),
]
DatabaseUrl = Annotated[
    str | None, typer.Option(help="List the run in this PostgreSQL of the brokers.")
]
DataDir = Annotated[
    str | None, typer.Option(help="Or in the one of this data directory of `queen serve`.")
]
_TABLE = Shape()


@app.command()
def describe(
    lake: Place,
    version: Annotated[
        int | None, typer.Option(min=0, help="An earlier version; the default is the newest.")
    ] = None,
    output: Format = _TABLE,
) -> None:
    """Show the queues, files and versions of a lake, by its log.

    Example: queen pipeline lake describe --lake ./lake
    """
    with _delta_rs():
        from queenmq.spark.lake import upkeep
        from queenmq.spark.lake.layout import Lake
    show(upkeep.describe(Lake.at(lake), version), Common(output=output))


@app.command()
def verify(
    lake: Place,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    output: Format = _TABLE,
) -> None:
    """Compare all messages of a lake with its manifest; exit code 6: they differ.

    Example: queen pipeline lake verify --lake ./lake
    """
    with _delta_rs():
        from queenmq.spark.lake import upkeep
        from queenmq.spark.lake.layout import Lake
    place, url = Lake.at(lake), _find_database(database_url, data_dir)
    summary = _record(url, "lake verify", {"lake": lake}, lambda: upkeep.verify(place))
    show(summary, Common(output=output))


@app.command()
def optimize(
    lake: Place,
    z_order: Annotated[
        bool, typer.Option("--z-order", help="Rewrite all files, sorted by partition and seq.")
    ] = False,
    dry_run: Dry = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    output: Format = _TABLE,
) -> None:
    """Merge small files into large ones. Files of release 0.1.0 are brought up to date.

    Example: queen pipeline lake optimize --lake ./lake
    """
    with _delta_rs():
        from queenmq.spark.lake import upkeep
        from queenmq.spark.lake.layout import Lake
    place, url = Lake.at(lake), _find_database(database_url, data_dir)
    summary = _record(
        None if dry_run else url,
        "lake optimize",
        {"lake": lake, "z-order": z_order},
        lambda: upkeep.optimize(place, is_dry=dry_run, z_order=z_order),
    )
    show(summary, Common(dry_run=dry_run, output=output))


@app.command()
def vacuum(
    lake: Place,
    hours: Annotated[
        int, typer.Option(min=1, help="Keep files that a version of the last N hours uses.")
    ] = 168,
    dry_run: Dry = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    output: Format = _TABLE,
) -> None:
    """Delete files that no recent version refers to.

    Example: queen pipeline lake vacuum --lake ./lake --hours 168 --dry-run
    """
    with _delta_rs():
        from queenmq.spark.lake import upkeep
        from queenmq.spark.lake.layout import Lake
    place, url = Lake.at(lake), _find_database(database_url, data_dir)
    summary = _record(
        None if dry_run else url,
        "lake vacuum",
        {"lake": lake, "hours": hours},
        lambda: upkeep.vacuum(place, hours, is_dry=dry_run),
    )
    show(summary, Common(dry_run=dry_run, output=output))


def _find_database(database_url: str | None, data_dir: str | None) -> str | None:
    """Return the database that lists the run, or None if there is none."""
    try:
        return find_url(database_url, data_dir)
    except (NothingThere, UsageProblem) as error:
        if database_url is not None or data_dir is not None:
            raise
        # No cluster in the default data directory is no problem: a lake can be on any machine.
        if isinstance(error, UsageProblem):
            _warn(str(error))
        return None


def _record(
    url: str | None, job: str, options: Mapping[str, Any], work: Callable[[], Summary]
) -> Summary:
    if url is None:
        return work()
    from queenmq.spark.jobs.job import About
    from queenmq.spark.jobs.runs import record_run

    return record_run(About(job, url, options), work, warn=_warn)


def _warn(reason: str) -> None:
    line = " ".join(reason.split())
    say(f"warning: `queen pipeline runs` does not list this run: {line}", is_error=True)


@contextmanager
def _delta_rs() -> Iterator[None]:
    """Say what to install where the extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageProblem(
            f"queen pipeline lake needs the package {error.name}, which is missing;"
            " install it with: pip install 'queenmq[spark]', or in a clone: make setup"
        ) from error
