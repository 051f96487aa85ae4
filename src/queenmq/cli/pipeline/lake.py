"""`queen pipeline lake ...`: the upkeep of a lake, without Spark and without a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from queenmq.cli.display.output import SHAPES, Shape, parse_shape
from queenmq.cli.exits import UsageProblem
from queenmq.cli.pipeline.frame import Common, show

app = typer.Typer(help="Describe, verify, optimize and clean up a lake.", no_args_is_help=True)

Place = Annotated[str, typer.Option("--lake", help="Folder or URL of the lake.")]
Dry = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")
]
Summary = Annotated[
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
_TABLE = Shape()


@app.command()
def describe(
    lake: Place,
    version: Annotated[
        int | None, typer.Option(min=0, help="An earlier version; the default is the newest.")
    ] = None,
    output: Summary = _TABLE,
) -> None:
    """Show the queues, files and versions of a lake, by its log.

    Example: queen pipeline lake describe --lake ./lake
    """
    with _delta_rs():
        from queenmq.spark.lake import upkeep
        from queenmq.spark.lake.layout import Lake
    show(upkeep.describe(Lake.at(lake), version), Common(output=output))


@app.command()
def verify(lake: Place, output: Summary = _TABLE) -> None:
    """Compare all messages of a lake with its manifest; exit code 6: they differ.

    Example: queen pipeline lake verify --lake ./lake
    """
    with _delta_rs():
        from queenmq.spark.lake import upkeep
        from queenmq.spark.lake.layout import Lake
    show(upkeep.verify(Lake.at(lake)), Common(output=output))


@app.command()
def optimize(
    lake: Place,
    z_order: Annotated[
        bool, typer.Option("--z-order", help="Rewrite all files, sorted by partition and seq.")
    ] = False,
    dry_run: Dry = False,
    output: Summary = _TABLE,
) -> None:
    """Merge small files into large ones. Files of release 0.1.0 are brought up to date.

    Example: queen pipeline lake optimize --lake ./lake
    """
    with _delta_rs():
        from queenmq.spark.lake import upkeep
        from queenmq.spark.lake.layout import Lake
    summary = upkeep.optimize(Lake.at(lake), is_dry=dry_run, z_order=z_order)
    show(summary, Common(dry_run=dry_run, output=output))


@app.command()
def vacuum(
    lake: Place,
    hours: Annotated[
        int, typer.Option(min=1, help="Keep files that a version of the last N hours uses.")
    ] = 168,
    dry_run: Dry = False,
    output: Summary = _TABLE,
) -> None:
    """Delete files that no recent version refers to.

    Example: queen pipeline lake vacuum --lake ./lake --hours 168 --dry-run
    """
    with _delta_rs():
        from queenmq.spark.lake import upkeep
        from queenmq.spark.lake.layout import Lake
    summary = upkeep.vacuum(Lake.at(lake), hours, is_dry=dry_run)
    show(summary, Common(dry_run=dry_run, output=output))


@contextmanager
def _delta_rs() -> Iterator[None]:
    """Say what to install where the extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageProblem(
            f"queen pipeline lake needs the package {error.name}, which is missing;"
            " install it with: pip install 'queenmq[spark]'"
        ) from error
