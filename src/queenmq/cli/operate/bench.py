"""`queen bench`: how fast a server is, measured from here, and compared with an earlier run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from queenmq import __version__, clock
from queenmq.cli.display import tables
from queenmq.cli.display.output import Column, cell, print_lines, progress
from queenmq.cli.display.times import parse_time
from queenmq.cli.exits import TooFewRights, UsageProblem
from queenmq.cli.operate import bench_runs
from queenmq.cli.operate.bench_runs import Load, Scenario
from queenmq.cli.session import Session

if TYPE_CHECKING:
    from queenmq.client.client import Queen


#: For people, where the key is not enough.
_TITLES = {"memoryGb": "memory GB", "loadAverage": "load average", "cpu": "CPU", "cpus": "CPUs"}


def _change(value: float | None) -> str:
    return "" if value is None else f"{value:+.1f} %"


_COLUMNS = [
    Column("scenario", "SCENARIO"),
    Column("messages", "MESSAGES"),
    Column("requests", "REQUESTS", rank=1),
    Column("messagesPerSecond", "MESSAGES/S"),
    Column("milliseconds.p50", "P50 MS"),
    Column("milliseconds.p95", "P95 MS", rank=3),
    Column("milliseconds.p99", "P99 MS"),
    Column("milliseconds.max", "MAX MS", rank=2),
]
_COMPARED = [
    Column("before.messagesPerSecond", "BEFORE", rank=2),
    Column("change.messagesPerSecond", "CHANGE", _change),
    Column("before.milliseconds.p50", "P50 BEFORE", rank=2),
    Column("change.p50", "CHANGE", _change),
]


def bench(
    session: Session,
    scenarios: Annotated[
        list[Scenario] | None, typer.Argument(help="What to measure.", show_default="all")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.1, max=3600, help="How long each scenario runs.")
    ] = 5.0,
    connections: Annotated[
        int, typer.Option(min=1, max=256, help="Connections at the same time.")
    ] = 8,
    batch: Annotated[int, typer.Option(min=1, max=10_000, help="Messages in a request.")] = 10,
    partitions: Annotated[int, typer.Option(min=1, max=100_000, help="Partitions to use.")] = 100,
    bytes: Annotated[int, typer.Option(min=24, max=1_000_000, help="Bytes of a payload.")] = 200,
    messages: Annotated[
        int, typer.Option(min=1, max=10_000_000, help="Messages to push before the scenario pop.")
    ] = 20_000,
    compare: Annotated[
        Path | None, typer.Option(help="An earlier run, as -o json printed it.")
    ] = None,
) -> None:
    """Measure a server with traffic on queues of its own, which are deleted afterwards.

    push and pop measure requests (pop with its ack follows a preload); push-pop both at once, with
    the time from push to pop; latency the same at 100 messages a second. The client runs here, so
    a busy machine measures itself.

    Example: queen bench push latency --seconds 1 -o json > old.json

    Example: queen bench push --seconds 1 --compare old.json
    """
    before = _earlier(compare) if compare is not None else {}
    if not session.may_delete("push", "pop"):
        raise TooFewRights(
            "bench creates queues and deletes them, which needs a token of the role admin with all"
            " verbs; nothing was created"
        )
    load = Load(seconds, connections, batch, partitions, bytes, messages)
    report = asyncio.run(_run(session, list(scenarios or Scenario), load))
    for result in report["results"]:
        _add_change(result, before.get(result["scenario"]))
    if not session.out.is_human:
        session.out.value(report)
        return
    for name, facts in (("client", report["client"]), ("server", report["server"])):
        titles = [f"{name} {_TITLES.get(key, key)}".upper() for key in facts]
        values = [cell(value) for value in facts.values()]
        print_lines(tables.block(titles, values, width=tables.terminal_width()))
    print()
    session.out.rows(report["results"], [*_COLUMNS, *(_COMPARED if before else [])])


async def _run(session: Session, scenarios: list[Scenario], load: Load) -> dict[str, Any]:
    from queenmq.client.client import Queen

    options = {**session.options(), "connections": 2 * load.connections + 2}
    async with Queen(session.server.url, **options) as queen:  # type: ignore[arg-type]
        health = await queen.admin.health()
        results = [await _measure_scenario(queen, scenario, load) for scenario in scenarios]
    return {
        "at": parse_time("now", now_ms=clock.unix_ms()),
        "client": machine_facts(),
        "server": {"url": session.server.url, "version": health.get("version")},
        "load": msgspec.to_builtins(load),
        "results": results,
    }


async def _measure_scenario(queen: Queen, scenario: Scenario, load: Load) -> dict[str, Any]:
    """Run one scenario behind a progress bar and return its figures."""
    tally = bench_runs.Tally()
    with progress() as bar:
        task = bar.add_task(scenario.value, total=load.seconds, note="")
        work = asyncio.ensure_future(bench_runs.Run(queen, load, tally).run(scenario))
        try:
            while not work.done():
                await asyncio.wait([work], timeout=0.2)
                took = (clock.now_ms() - tally.started_ms) / 1000
                rate = tally.messages / took if took else 0
                bar.update(task, completed=took, note=f"{rate:,.0f} messages/s")
            return work.result()
        finally:
            # Left early: the queue is deleted before the connections are closed.
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await work


def machine_facts() -> dict[str, Any]:
    """Describe the machine, because a figure means nothing without it."""
    return {
        "queenmq": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "cpu": _cpu_model(),
        "memoryGb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "loadAverage": round(os.getloadavg()[0], 2),
    }


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _earlier(file: Path) -> dict[str, Any]:
    """Return the results of an earlier run by their scenario."""
    try:
        report = msgspec.json.decode(file.read_bytes())
        return {one["scenario"]: one for one in report["results"]}
    except OSError as error:
        raise UsageProblem(f"file {file} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, KeyError, TypeError):
        raise UsageProblem(f"file {file} is not the output of queen bench -o json") from None


def _add_change(now: dict[str, Any], before: dict[str, Any] | None) -> None:
    """Add the change against the earlier run, in percent."""
    if before is None:
        return
    pairs = {
        "messagesPerSecond": (now["messagesPerSecond"], before["messagesPerSecond"]),
        "p50": (now["milliseconds"]["p50"], before["milliseconds"]["p50"]),
    }
    now["before"] = {key: before[key] for key in ("messagesPerSecond", "milliseconds")}
    now["change"] = {
        key: round(100 * (new - old) / old, 1) if old else None for key, (new, old) in pairs.items()
    }
