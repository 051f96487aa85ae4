"""Measures how far a stream is behind, for the progress of its query.

Spark takes no metrics from a Python source. The latest offset is the only value of ours that it
shows in a query's progress, so the figures are part of it. They are taken once per batch, and
seldom while nothing is new: a count must not cost more than the batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from queenmq.clock import now_ms
from queenmq.spark.database.sql_text import fill, load

if TYPE_CHECKING:
    from queenmq.spark.database.connection import Database
    from queenmq.spark.source.selection import Selection

#: Counting ends here.
COUNT_MAX = 1_000_000
#: Between two looks at a stream that does not move.
_AGAIN_MS = 5_000


class Measures:
    """The figures of one stream."""

    def __init__(self) -> None:
        self._taken_ms: float | None = None
        self._figures: dict[str, Any] = {}

    def measure(
        self, database: Database, everything: Selection, start: int, end: int | None
    ) -> None:
        """Measure the batch from `start` to `end`, and the messages that it leaves unread.

        If `end` is None, nothing is new, and the stream has read up to `start`.
        """
        now = now_ms()
        if end is None and self._taken_ms is not None and now < self._taken_ms + _AGAIN_MS:
            # The lag may be a little old; a batch must not be reported twice.
            self._figures = {**self._figures, "rowsByQueue": {}}
            return
        self._taken_ms = now
        if everything.is_empty:
            self._figures = _figures([])
            return
        reached = start if end is None else end
        statement = fill(
            load("progress")["figures"],
            queues=everything.queues,
            batch=everything.between(start, reached).condition(),
            waiting=replace(everything, start=reached, end=None).condition(),
            limit=COUNT_MAX,
        )
        self._figures = _figures(database.rows(statement))

    def report(self) -> dict[str, Any]:
        """Return the figures as they were measured last."""
        return self._figures


def _figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ages = [row["age_s"] for row in rows if row["age_s"] is not None]
    return {
        "lagMessages": min(COUNT_MAX, sum(row["waiting"] for row in rows)),
        "lagSeconds": max(0, *ages) if ages else 0,
        "rowsByQueue": {row["queue"]: row["messages"] for row in rows if row["messages"]},
    }
