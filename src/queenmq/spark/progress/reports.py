"""Reads the figures of Queen sources back from what Spark reports of a query."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress


@dataclass(frozen=True)
class SourceProgress:
    """The progress of one Queen source of a query."""

    #: Messages of the batch by queue; queues without any are left out.
    rows_by_queue: Mapping[str, int]
    #: Messages that the batch leaves unread, counted up to a million, and the age of the first.
    lag_messages: int
    lag_seconds: int
    #: The transaction or the server that new messages wait for; None: nothing.
    waits_for: str | None
    #: How often the database was away since the query began.
    outages: int


def read_progress(progress: StreamingQueryProgress | Mapping[str, Any]) -> list[SourceProgress]:
    """Return the figures of every Queen source of a query, in the order of its sources.

    Takes the progress that a listener is given, or `query.lastProgress`.
    """
    # The progress of a classic session is a mapping as well.
    text = getattr(progress, "json", None)
    report = json.loads(text) if isinstance(text, str) else progress
    assert isinstance(report, Mapping)
    found = [_latest(source) for source in report.get("sources") or ()]
    return [_parse(latest) for latest in found if "lagMessages" in latest]


def _latest(source: Mapping[str, Any]) -> dict[str, Any]:
    latest = source.get("latestOffset")
    try:
        values = json.loads(latest) if isinstance(latest, str) else latest
    except ValueError:
        # Other sources have other forms of offsets.
        values = None
    return values if isinstance(values, dict) else {}


def _parse(latest: Mapping[str, Any]) -> SourceProgress:
    return SourceProgress(
        dict(latest["rowsByQueue"]),
        int(latest["lagMessages"]),
        int(latest["lagSeconds"]),
        latest.get("waitsFor"),
        int(latest.get("outages", 0)),
    )
