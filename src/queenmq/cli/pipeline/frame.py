"""The shared part of all jobs of the command line: options, session, progress, summary and exit
code, which is 6 when the job was done and found something wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from queenmq.cli.display.output import SHAPES, Output, Shape, parse_shape
from queenmq.cli.exits import FOUND, UsageProblem
from queenmq.cli.pipeline.java_output import capture_java_output
from queenmq.cli.server.database_url import find_url
from queenmq.cli.server.declaring import Command, declare, parameter
from queenmq.errors import InvalidRequest, SettingsError, StorageUnavailable

if TYPE_CHECKING:
    from queenmq.spark.jobs.job import Job, Summary

_PANEL = "All jobs"

_TABLE = Shape()


@dataclass(frozen=True)
class Common:
    """Options that every job has."""

    database_url: Annotated[
        str | None, typer.Option(help="URL of the brokers' PostgreSQL.", rich_help_panel=_PANEL)
    ] = None
    data_dir: Annotated[
        str | None,
        typer.Option(help="Or the data directory of `queen serve`.", rich_help_panel=_PANEL),
    ] = None
    master: Annotated[
        str,
        typer.Option(
            help="Where Spark runs: local[*], spark://host:7077, yarn ...",
            envvar="QUEEN_SPARK_MASTER",
            rich_help_panel=_PANEL,
        ),
    ] = "local[*]"
    remote: Annotated[
        str | None,
        typer.Option(help="Or a Spark Connect server: sc://host:15002.", rich_help_panel=_PANEL),
    ] = None
    conf: Annotated[
        list[str] | None,
        typer.Option(help="A Spark setting, as name=value; repeatable.", rich_help_panel=_PANEL),
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show what would be done, and change nothing.", rich_help_panel=_PANEL
        ),
    ] = False
    output: Annotated[
        Shape,
        typer.Option(
            "--output",
            "-o",
            help=f"How to print the summary: {SHAPES}.",
            parser=parse_shape,
            metavar="FORMAT",
            show_default="table",
            rich_help_panel=_PANEL,
        ),
    ] = _TABLE
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show no progress.", rich_help_panel=_PANEL)
    ] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show what Spark logs.", rich_help_panel=_PANEL)
    ] = False

    def url(self) -> str:
        """Return the database that is meant."""
        return find_url(self.database_url, self.data_dir)

    def settings(self) -> dict[str, str]:
        """Return the settings for Spark."""
        found = {}
        for text in self.conf or ():
            name, equals, value = text.partition("=")
            if not equals or not name:
                raise InvalidRequest(f"--conf {text!r} is not a setting; write name=value")
            found[name] = value
        return found


def job_command(function: Callable[..., Job]) -> Command:
    """Make a command of a function that takes `Common` and options and gives a job.

    The options of `Common` join the command's own; everything that can be wrong with them is
    said before Spark, which takes seconds, is started.
    """
    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    kinds = inspect.get_annotations(Common, eval_str=True)
    common = [parameter(field.name, kinds[field.name], field.default) for field in fields(Common)]

    def command(**values: Any) -> None:
        shared = Common(**{field.name: values.pop(field.name) for field in fields(Common)})
        config = shared.settings()
        try:
            job = function(shared, **values)
        except SettingsError as error:
            raise UsageProblem(str(error)) from error
        except ModuleNotFoundError as error:
            raise UsageProblem(
                f"queen pipeline runs on Spark, and the package {error.name} is missing;"
                " install both with: pip install 'queenmq[spark]', or in a clone: make setup"
            ) from error
        summary = _run(job, shared, config)
        show(summary, shared)

    return declare(command, own + common, like=function)


def _run(job: Job, shared: Common, config: dict[str, str]) -> Summary:
    from queenmq.cli.pipeline.progress import show_progress
    from queenmq.spark.runtime.failures import first_sentence
    from queenmq.spark.runtime.session import CALM, is_running, session

    is_ours = not is_running()
    with (
        capture_java_output(is_shown=shared.verbose or not is_ours) as java,
        show_progress(is_quiet=shared.quiet) as progress,
    ):
        progress.report("starting Spark")
        try:
            spark = session(
                "queen-pipeline",
                master=shared.master,
                remote=shared.remote,
                config=(config if shared.verbose else CALM | config),
            )
        except SettingsError as error:
            raise UsageProblem(str(error)) from error
        except Exception as error:
            why = java.last_line() or first_sentence(error)
            raise StorageUnavailable(
                f"Spark did not start ({why}); check --master, --remote and --conf, or see its"
                " log with --verbose"
            ) from error
        try:
            return job.plan(spark) if shared.dry_run else job.run(spark, progress)
        finally:
            if is_ours:
                spark.stop()


def show(summary: Summary, shared: Common) -> None:
    """Print a summary, and end with the exit code that belongs to it."""
    out = Output(shared.output)
    if out.is_human:
        from queenmq.cli.pipeline.progress import print_summary

        print_summary(summary, is_plan=shared.dry_run)
    else:
        _print_values(summary, shared, out)
    if not summary.is_ok:
        raise typer.Exit(FOUND)


def _print_values(summary: Summary, shared: Common, out: Output) -> None:
    tables = {
        name: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        for name, table in summary.tables.items()
    }
    answer = {"job": summary.job, "isOk": summary.is_ok, "isPlan": shared.dry_run}
    out.value({**answer, "figures": dict(summary.figures), **tables})
