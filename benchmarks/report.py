"""Turns measurements into a table, and a table into a page with the facts needed to repeat it."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import wrk
from benchmarks.broker import Usage
from benchmarks.scenario import FLOOR, HERE, Scenario
from queenmq.storage.embedded.binaries import find_binaries

_HEADINGS = (
    "scenario", "requests/s", "messages/s", "p50 ms", "p99 ms", "of floor", "broker MB",
    "broker CPU s", "postgres CPU s", "wrk CPU s", "errors", "verdict",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One scenario as it went."""

    scenario: Scenario
    outcome: wrk.Outcome
    before: Usage
    after: Usage

    @property
    def errors(self) -> int:
        return self.outcome.failed + self.outcome.broken

    @property
    def verdict(self) -> str:
        if self.errors:
            return "INVALID: errors"
        if self.outcome.dry:
            return f"INVALID: {self.outcome.dry} empty pops"
        if self.scenario.name != FLOOR and not self.outcome.messages:
            return "INVALID: no messages"
        return "valid"

    @property
    def is_valid(self) -> bool:
        return self.verdict == "valid"


def table(measurements: Sequence[Measurement]) -> str:
    """All measurements in Markdown, columns aligned for reading as plain text."""
    floor = next((m.outcome for m in measurements if m.scenario.name == FLOOR), None)
    rows = [_HEADINGS, *(_row(one, floor) for one in measurements)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = [_line(row, widths) for row in rows]
    rule = [f"{'-' * (width - 1)}{':' if 0 < at < 11 else '-'}" for at, width in enumerate(widths)]
    return "\n".join([lines[0], f"| {' | '.join(rule)} |", *lines[1:]])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    last = len(row) - 1
    cells = [
        text.ljust(width) if at in (0, last) else text.rjust(width)
        for at, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"| {' | '.join(cells)} |"


def _row(one: Measurement, floor: wrk.Outcome | None) -> tuple[str, ...]:
    outcome, before, after = one.outcome, one.before, one.after
    is_floor = one.scenario.name == FLOOR
    part = f"{outcome.requests_per_s / floor.requests_per_s:.1%}" if floor else "-"
    return (
        one.scenario.name,
        f"{outcome.requests_per_s:,.0f}",
        "-" if is_floor else f"{outcome.messages_per_s:,.0f}",
        f"{outcome.p50_us / 1000:.1f}",
        f"{outcome.p99_us / 1000:.1f}",
        part,
        f"{after.broker_rss_bytes / 2**20:.0f}",
        f"{after.broker_cpu_s - before.broker_cpu_s:.1f}",
        f"{after.postgres_cpu_s - before.postgres_cpu_s:.1f}",
        f"{outcome.cpu_s:.1f}",
        str(one.errors),
        one.verdict,
    )


def facts() -> list[str]:
    """The machine and the code that were measured."""
    load = os.getloadavg()[0]
    return [
        f"date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC; commit: {_commit()}",
        f"machine: {len(os.sched_getaffinity(0))} cores ({_cpu_model()}), {_memory_gb():.0f} GB,"
        f" {platform.system()} {platform.release()}; load average before the run: {load:.2f}",
        f"Python {platform.python_version()}, {_postgres_version()}; broker, PostgreSQL and wrk"
        " share the machine",
        f"wrk: {wrk.CONNECTIONS} connections, {wrk.THREADS} thread",
    ]


def page(
    title: str, machine: Sequence[str], command: str, measurements: Sequence[Measurement]
) -> str:
    """A results page."""
    return "\n".join(
        [
            f"# Benchmark: {title}",
            "",
            *(f"- {fact}" for fact in machine),
            "",
            f"Repeat it with `{command}`.",
            "",
            table(measurements),
            "",
            "`of floor` is requests/s as a part of those of `live`, measured in the same run: a"
            " bare `GET /health/live`.",
            "CPU seconds are those of the measured time only. A run with errors or empty pops is"
            " invalid.",
            "",
            *(f"- {one.scenario.name}: {one.scenario.about}" for one in measurements),
            "",
        ]
    )


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def _commit() -> str:
    commit = _git("rev-parse", "--short", "HEAD") or "none"
    return f"{commit} with changes" if _git("status", "--porcelain") else commit


def _postgres_version() -> str:
    command = [find_binaries().postgres, "--version"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return text.strip().replace("postgres (PostgreSQL)", "PostgreSQL")


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
