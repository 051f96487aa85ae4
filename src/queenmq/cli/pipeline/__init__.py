"""`queen pipeline ...`: jobs on Spark, on this machine or any cluster."""

from __future__ import annotations

import typer

from queenmq.cli.pipeline import analytics, archive, audit, lake, load, replay, runs, stream
from queenmq.cli.session import command

app = typer.Typer(
    help="Jobs on Spark: archive, replay, analytics, audit, load, stream.", no_args_is_help=True
)
app.command(name="archive")(archive.archive)
app.command(name="load")(load.load)
app.command(name="replay")(replay.replay)
app.command(name="analytics")(analytics.analytics)
app.command(name="audit")(audit.audit)
app.command(name="stream")(stream.stream)
command(app)(runs.runs)
app.add_typer(lake.app, name="lake")
