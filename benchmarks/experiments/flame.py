"""Flame graphs of a broker under load, as `benchmarks/results/flame-<scenario>-<commit>.svg`.

Needs py-spy. Each graph has the Python code that the broker runs while wrk keeps it busy. The width
of a frame is its share of the samples in which Python was at work.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from pathlib import Path

from benchmarks import report, scenario, wrk
from benchmarks.broker import BenchmarkError, Broker
from benchmarks.database import running_database
from benchmarks.experiment import Context, Row
from benchmarks.preload import preload
from benchmarks.scenario import HERE, Scenario

ABOUT = "flame graphs of a broker that is pushed to and popped from"

_SCENARIOS = ("push-10", "pop-10")
_SECONDS = 5
_SAMPLES_PER_S = 100
_SCRIPT = re.compile(r"<script.*?</script>| onload=\"[^\"]*\"", re.DOTALL)
_TITLE = re.compile(r'(<text id="title"[^>]*>)[^<]*</text>')


async def run(context: Context) -> list[Row]:
    py_spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if py_spy is None:
        raise BenchmarkError("py-spy is not installed: pip install py-spy")
    rows = []
    async with running_database() as database:
        with context.broker(database) as broker:
            for name in _SCENARIOS:
                path = HERE / "results" / f"flame-{name}-{report.short_commit()}.svg"
                await _record(py_spy, broker, scenario.load(name), path)
                text = f"{path.relative_to(HERE.parent)}, {path.stat().st_size / 1024:.0f} KB"
                rows.append(Row(what=name, shape=f"{_SECONDS} s of load", measured=text))
    return rows


async def _record(py_spy: str, broker: Broker, one: Scenario, path: Path) -> None:
    queue = f"flame-{one.name}"
    if one.rate is not None:
        messages = one.rate * (_SECONDS + 2)
        preload(broker.address, queue=queue, partitions=one.partitions, messages=messages)
    load = asyncio.create_task(
        asyncio.to_thread(
            wrk.run, broker.url, one.script, one.arguments(queue), seconds=_SECONDS + 1
        )
    )
    command = [
        py_spy, "record", "--pid", str(broker.pid), "--duration", str(_SECONDS),
        "--rate", str(_SAMPLES_PER_S), "--gil", "--format", "flamegraph", "--output", str(path),
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    await load
    if process.returncode or not path.exists():
        raise BenchmarkError(f"py-spy failed: {errors.decode()[-300:]}")
    path.write_text(_tidy(path.read_text(), path.stem))


def _tidy(svg: str, title: str) -> str:
    """Return the picture without its script, and without the command, which has local paths."""
    svg = _SCRIPT.sub("", _TITLE.sub(rf"\g<1>{title}</text>", svg, count=1))
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines())
