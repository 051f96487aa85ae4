"""`queen pipeline ...`: jobs on Spark, on this machine or any cluster."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Jobs on Spark: archive, replay, analytics, audit, load, stream.", no_args_is_help=True
)
