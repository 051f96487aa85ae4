"""Maintains a lake with delta-rs alone, without Spark: describe, optimize, vacuum, verify.

All of it may run beside an archive. Commits of both sides are repeated on top of each other's, and
files that a running job or a reader of the last hours may need are not removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from deltalake import DeltaTable, WriterProperties

from queenmq.errors import Conflict
from queenmq.spark.jobs.job import Summary, Table
from queenmq.spark.lake import manifest
from queenmq.spark.lake.compaction import SMALL_BYTES
from queenmq.spark.lake.folders import fits
from queenmq.spark.lake.layout import DataFile, Lake
from queenmq.spark.lake.table import MessageTable, delta_errors, open_table
from queenmq.spark.lake.verification import verify as compare

Filters = list[tuple[str, str, Any]] | None
#: Versions that a description lists.
_VERSIONS = 5
#: How often an optimization begins again when another writer has replaced the same files.
_TRIES = 5
_LISTED = 100
#: Rows of a partition lie together, in their order, as far as a curve allows.
_ORDER = ("partition_id", "seq")


def describe(lake: Lake, version: int | None = None) -> Summary:
    """Describe a lake by its log."""
    table = open_table(lake, version)
    files = table.files()
    figures = {
        "lake": lake.location,
        "version": table.version,
        "queues": len({file.queue for file in files}),
        **_sums(files),
        "small files": sum(file.bytes < SMALL_BYTES for file in files),
        "files without variants": sum(not file.has_variant for file in files),
        "files of release 0.1.0": sum(file.is_of_first_layout for file in files),
        "messages verified": sum(entry["messages"] for entry in manifest.read_entries(lake)),
    }
    columns = ("queue", "days", "first day", "last day", "files", "bytes", "messages")
    queues = Table(columns, [_queue(name, own) for name, own in _by_queue(files)])
    versions = [
        (entry["version"], entry["time"], entry["operation"]) for entry in table.history(_VERSIONS)
    ]
    tables = {"queues": queues, "versions": Table(("version", "time", "operation"), versions)}
    return Summary("lake describe", figures, tables)


def _sums(files: Iterable[DataFile]) -> dict[str, Any]:
    listed = list(files)
    counts = [file.messages for file in listed]
    known = None if None in counts else sum(count or 0 for count in counts)
    return {
        "files": len(listed),
        "bytes": sum(file.bytes for file in listed),
        "messages": known,
    }


def _by_queue(files: Iterable[DataFile]) -> list[tuple[str, list[DataFile]]]:
    found: dict[str, list[DataFile]] = {}
    for file in files:
        found.setdefault(file.queue, []).append(file)
    return sorted(found.items())


def _queue(name: str, files: list[DataFile]) -> tuple[Any, ...]:
    days = sorted({str(file.day) for file in files})
    return (name, len(days), days[0], days[-1], *_sums(files).values())


def optimize(lake: Lake, *, is_dry: bool = False, z_order: bool = False) -> Summary:
    """Merge small files into large ones. Files of release 0.1.0 are always rewritten."""
    table = open_table(lake)
    skipped = sorted({file.queue for file in table.files() if not _can_rewrite(file)})
    figures: dict[str, Any] = {"lake": lake.location, "files before": len(table.files())}
    if not is_dry:
        for place in _old_places(table, skipped):
            _retry(lake, partial(_rewrite, filters=place))
        others: Filters = [("queue", "not in", skipped)] if skipped else None
        _retry(lake, partial(_rewrite if z_order else _compact, filters=others))
        manifest.tidy(lake, at_least=2)
    files = open_table(lake).files()
    figures |= {
        "files": len(files),
        "small files": sum(file.bytes < SMALL_BYTES for file in files),
        "files of release 0.1.0": sum(file.is_of_first_layout for file in files),
    }
    left = Table(("queue",), [(name,) for name in skipped])
    return Summary("lake optimize", figures, {"left to queen pipeline archive --compact": left})


def _can_rewrite(file: DataFile) -> bool:
    """Return whether delta-rs can: not into a folder with a long name, nor from one with a
    tilde.
    """
    return fits(file.queue) and "~" not in file.path


def _old_places(table: MessageTable, skipped: list[str]) -> list[Filters]:
    """Queue and day of each file of release 0.1.0."""
    found = {
        (file.queue, file.day)
        for file in table.files()
        if file.is_of_first_layout and file.queue not in skipped
    }
    return [[("queue", "=", queue), ("day", "=", day.isoformat())] for queue, day in sorted(found)]


def _compact(delta: DeltaTable, filters: Filters) -> None:
    delta.optimize.compact(partition_filters=filters, writer_properties=_properties())


def _rewrite(delta: DeltaTable, filters: Filters) -> None:
    delta.optimize.z_order(list(_ORDER), partition_filters=filters, writer_properties=_properties())


def _properties() -> WriterProperties:
    return WriterProperties(compression="ZSTD")


def _retry(lake: Lake, work: Callable[[DeltaTable], None]) -> None:
    """Begin again on the newest version when another writer has replaced the same files."""
    for last in [*[False] * (_TRIES - 1), True]:
        try:
            with delta_errors(lake, "optimized"):
                work(DeltaTable(lake.messages))
            return
        except Conflict:
            if last:
                raise


def vacuum(lake: Lake, hours: int, *, is_dry: bool = False) -> Summary:
    """Delete files that no version of the last hours refers to."""
    removed = open_table(lake).vacuum(hours, is_dry=is_dry)
    removed += manifest.clean_up(lake, hours, is_dry=is_dry)
    figures = {"lake": lake.location, "hours": hours}
    name = "files to remove" if is_dry else "files removed"
    return Summary("lake vacuum", {**figures, name: removed})


def verify(lake: Lake) -> Summary:
    """Compare all messages of a lake with its manifest."""
    found = compare(open_table(lake))
    figures = {
        "lake": lake.location,
        "partitions": found.partitions,
        "messages": found.messages,
        "messages that wait to be verified": found.unverified,
        "files that are missing": len(found.missing_files),
        "partitions that differ": len(found.differences),
    }
    columns = ("queue", "partition", "verified", "found", "what")
    rows = [
        (each.queue, each.partition, each.verified, each.found, each.what)
        for each in found.differences[:_LISTED]
    ]
    missing = [(path,) for path in found.missing_files[:_LISTED]]
    tables = {"differences": Table(columns, rows), "missing files": Table(("path",), missing)}
    return Summary("lake verify", figures, tables, is_ok=found.is_ok)
