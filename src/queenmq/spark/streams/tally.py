"""Pure: counts from the progress reports of a query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Done:
    """A batch that is done."""

    number: int
    #: It has used every message that it read and that passed the filter.
    is_clean: bool


@dataclass
class Tally:
    """The counts of one run."""

    batches: int = 0
    messages: int = 0
    #: Rows that Spark dropped as late, counted after aggregation.
    dropped: int = 0
    open_windows: int = 0
    #: The open transaction that holds new messages back.
    waits_for: str | None = None
    _last: int = -1

    def take(self, reports: Iterable[Mapping[str, Any]]) -> list[Done]:
        """Count new reports and return their batches."""
        found = []
        for report in reports:
            self.waits_for = _waits_for(report)
            # Spark reports now and then that nothing happens, under the number of the next batch.
            if report["batchId"] <= self._last or "addBatch" not in report["durationMs"]:
                continue
            found.append(self._count(report))
        return found

    def text(self, unused: int) -> str:
        """Format the tally for people."""
        text = f"{self.batches} batches, {self.messages} messages"
        if unused:
            text += f", {unused} NOT USED"
        return f"{text}, waits for {self.waits_for}" if self.waits_for else text

    def _count(self, report: Mapping[str, Any]) -> Done:
        self._last = report["batchId"]
        self.batches += 1
        self.messages += report["numInputRows"]
        operators = report.get("stateOperators") or []
        dropped = sum(each["numRowsDroppedByWatermark"] for each in operators)
        self.dropped += dropped
        self.open_windows = sum(each["numRowsTotal"] for each in operators)
        observed = (report.get("observedMetrics") or {}).get("queen")
        # A batch without our numbers may be anything.
        return Done(self._last, observed is not None and not dropped and not observed["unusable"])


def _waits_for(report: Mapping[str, Any]) -> str | None:
    sources = report.get("sources") or [{}]
    latest = sources[0].get("latestOffset")
    found = json.loads(latest) if isinstance(latest, str) else latest
    return found.get("waitsFor") if isinstance(found, dict) else None
