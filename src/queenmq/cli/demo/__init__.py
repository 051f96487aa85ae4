"""`queen demo`: the whole product at work on this machine, in less than two minutes."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import typer

_PARTS = ("pyspark", "deltalake", "adbc_driver_postgresql")


def demo(
    seconds: int = typer.Option(10, min=1, max=600, help="Push for at least this long."),
    spark: bool = typer.Option(True, help="Run the Spark part; needs queenmq[spark]."),
    report: Path = typer.Option(
        Path("queen-demo-report.html"), help="Write the report about the traffic to this file."
    ),
) -> None:
    """Start a broker, push orders, consume them with two groups, run a Spark stream, an archive and
    a report beside it; then check that everything arrived.

    Example: queen demo --seconds 2 --no-spark
    """
    from queenmq.cli.demo.broker import running_broker
    from queenmq.cli.demo.traffic import Traffic

    missing = [name for name in _PARTS if importlib.util.find_spec(name) is None]
    if spark and missing:
        print(f"Without Spark: {', '.join(missing)} not found; install queenmq[spark]")
    with tempfile.TemporaryDirectory(prefix="queen-demo-") as home, running_broker(home) as url:
        traffic = Traffic(url)
        traffic.introduce()
        if spark and not missing:
            from queenmq.cli.demo.pipeline import Story

            Story(traffic, Path(home), report.absolute()).run(seconds)
        else:
            traffic.run(seconds)
        traffic.report()
