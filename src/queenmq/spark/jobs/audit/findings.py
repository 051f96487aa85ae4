"""The findings of the audit and their report. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from queenmq.spark.jobs.job import Table

#: Told one by one; the others are counted.
SHOWN_MAX = 100
#: Of one check; a broken table must not fill the memory of the driver.
KEPT_MAX = 10_000

SCHEMA = (
    "check_name string, queue string, partition string, consumer_group string, seq bigint,"
    " detail string, partition_id string"
)
COLUMNS = ("check", "queue", "partition", "consumer_group", "seq", "detail", "partition_id")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    check: str
    queue: str | None
    partition: str | None
    consumer_group: str | None
    seq: int | None
    detail: str
    partition_id: str | None


@dataclass(frozen=True)
class Checked:
    """The result of one check. `total` includes findings that were not kept."""

    name: str
    checked: int
    findings: tuple[Finding, ...]
    total: int | None = None
    #: Why it was not done.
    skipped: str | None = None

    @property
    def count(self) -> int:
        return len(self.findings) if self.total is None else self.total


def overview(checks: list[Checked]) -> Table:
    """Return a row per check."""
    rows = [(c.name, c.checked, c.count, c.skipped or "") for c in checks]
    return Table(("check", "looked at", "findings", "remark"), rows)


def list_findings(checks: list[Checked]) -> Table:
    """Return the first findings."""
    found = [finding for check in checks for finding in check.findings][:SHOWN_MAX]
    rows = [(f.check, f.queue, f.partition, f.consumer_group, f.seq, f.detail) for f in found]
    return Table(COLUMNS[:-1], rows)


def to_arrow(checks: list[Checked], run_id: str, at: str) -> pa.Table:
    """Return all findings, for the lake; a run without any is a row that says so."""
    rows: list[dict[str, object]] = [
        {"run_id": run_id, "audited_at": at, **dict(zip(COLUMNS, _values(f), strict=True))}
        for check in checks
        for f in check.findings
    ]
    text = pa.string()
    schema = pa.schema(
        [("run_id", text), ("audited_at", text)]
        + [(name, pa.int64() if name == "seq" else text) for name in COLUMNS]
    )
    clean: dict[str, object] = {
        "run_id": run_id,
        "audited_at": at,
        "check": "all",
        "detail": "nothing was found",
    }
    return pa.Table.from_pylist(rows or [clean], schema=schema)


def _values(finding: Finding) -> tuple[object, ...]:
    return (
        finding.check,
        finding.queue,
        finding.partition,
        finding.consumer_group,
        finding.seq,
        finding.detail,
        finding.partition_id,
    )
