"""Turns measurements into a table, and a table into a page with the facts needed to repeat it."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import wrk
from benchmarks.broker import Usage
from benchmarks.experiment import Findings
from benchmarks.scenario import FLOOR, HERE, Scenario
from benchmarks.work import DatabaseWork
from queenmq.storage.embedded.binaries import find_binaries

_HEADINGS = (
    "scenario", "requests/s", "messages/s", "p50 ms", "p99 ms", "of floor", "broker us",
    "postgres us", "WAL bytes", "disk bytes", "commits", "statements", "broker MB", "wrk CPU s",
    "errors", "verdict",
)  # fmt: skip
_EXPERIMENT_HEADINGS = ("experiment", "what", "shape", "measured", "target", "reached")


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One scenario as it went."""

    scenario: Scenario
    outcome: wrk.Outcome
    before: Usage
    after: Usage
    #: What the database has done meanwhile.
    work: DatabaseWork

    @property
    def units(self) -> int:
        """Return the unit of a cost: messages, or requests where a scenario has no messages."""
        return max(1, self.outcome.messages or self.outcome.requests)

    @property
    def broker_us(self) -> float:
        """CPU microseconds of the broker per message."""
        return (self.after.broker_cpu_s - self.before.broker_cpu_s) / self.units * 1e6

    @property
    def postgres_us(self) -> float:
        """CPU microseconds of PostgreSQL per message."""
        return (self.after.postgres_cpu_s - self.before.postgres_cpu_s) / self.units * 1e6

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


@dataclass(frozen=True)
class Results:
    """All that one run has found."""

    measurements: Sequence[Measurement]
    findings: Sequence[Findings]

    @property
    def are_valid(self) -> bool:
        """Whether everything was measured properly; a missed target is a result like any other."""
        return all(one.is_valid for one in self.measurements) and not any(
            one.error for one in self.findings
        )

    def tables(self) -> list[str]:
        """A table per kind of measurement, as far as there were any."""
        tables = []
        if self.measurements:
            tables += [scenario_table(self.measurements), ""]
        if self.findings:
            tables += [experiment_table(self.findings), ""]
        return tables


def scenario_table(measurements: Sequence[Measurement]) -> str:
    """How fast."""
    floor = next((m.outcome for m in measurements if m.scenario.name == FLOOR), None)
    numbers = range(1, len(_HEADINGS) - 1)
    return _table(_HEADINGS, [_row(one, floor) for one in measurements], numbers)


def experiment_table(findings: Sequence[Findings]) -> str:
    """Against what target."""
    rows = []
    for one in findings:
        if one.error:
            rows.append((one.name, "-", "-", f"INVALID: {one.error}", "-", "NO"))
        rows += [
            (one.name, row.what, row.shape, row.measured, row.target or "-", _said(row.is_reached))
            for row in one.rows
        ]
    return _table(_EXPERIMENT_HEADINGS, rows, ())


def _said(is_reached: bool | None) -> str:
    return "-" if is_reached is None else "yes" if is_reached else "NO"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Container[int]) -> str:
    """In Markdown, columns aligned for reading as plain text, those with numbers to the right."""
    columns = range(len(headings))
    widths = [max(len(row[at]) for row in [headings, *rows]) for at in columns]
    rule = [f"{'-' * (widths[at] - 1)}{':' if at in numbers else '-'}" for at in columns]
    lines = [
        [
            row[at].rjust(widths[at]) if at in numbers else row[at].ljust(widths[at])
            for at in columns
        ]
        for row in [headings, *rows]
    ]
    lines.insert(1, rule)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(one: Measurement, floor: wrk.Outcome | None) -> tuple[str, ...]:
    outcome, work = one.outcome, one.work.per(one.units)
    is_floor = one.scenario.name == FLOOR
    part = f"{outcome.requests_per_s / floor.requests_per_s:.1%}" if floor else "-"
    return (
        one.scenario.name,
        f"{outcome.requests_per_s:,.0f}",
        "-" if is_floor else f"{outcome.messages_per_s:,.0f}",
        f"{outcome.p50_us / 1000:.1f}",
        f"{outcome.p99_us / 1000:.1f}",
        part,
        f"{one.broker_us:.1f}",
        f"{one.postgres_us:.1f}",
        f"{work.wal_bytes:,.0f}",
        f"{work.disk_bytes:,.0f}",
        f"{work.commits:.3f}",
        f"{work.statements:.3f}",
        f"{one.after.broker_rss_bytes / 2**20:.0f}",
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


def page(title: str, machine: Sequence[str], command: str, results: Results) -> str:
    """A results page."""
    lines = [f"# Benchmark: {title}", "", *(f"- {fact}" for fact in machine), ""]
    lines += [f"Repeat it with `{command}`.", ""]
    if results.measurements:
        lines += _scenario_section(results.measurements)
    if results.findings:
        lines += _experiment_section(results.findings)
    return "\n".join(lines)


def _scenario_section(measurements: Sequence[Measurement]) -> list[str]:
    return [
        "## Scenarios",
        "",
        scenario_table(measurements),
        "",
        "`of floor` is requests/s as a part of those of `live`, measured in the same run: a"
        " bare `GET /health/live`.",
        "CPU microseconds, bytes, commits and statements are per message, or per request where"
        " there are no messages.",
        "A run with errors or empty pops is invalid.",
        "",
        *(f"- {one.scenario.name}: {one.scenario.about}" for one in measurements),
        "",
    ]


def _experiment_section(findings: Sequence[Findings]) -> list[str]:
    return [
        "## Experiments",
        "",
        experiment_table(findings),
        "",
        "The sides of an experiment take turns on one database. A figure is the median of all"
        " rounds, in brackets the lowest and the",
        "highest; a ratio is taken round by round. Lines without a target explain the others.",
        "",
        *(f"- {one.name}: {one.about}" for one in findings),
        "",
    ]


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def short_commit() -> str:
    """Return the commit that is checked out."""
    return _git("rev-parse", "--short", "HEAD") or "none"


def _commit() -> str:
    commit = short_commit()
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
