"""Computes the column statistics of a file for Delta's log, so that readers can skip it. Pure.

delta-rs takes a column without bounds for one without values, and then finds no row by it. So every
column has its bounds, unless it is NULL in all rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

#: Characters of a text that are kept.
TEXT_MAX = 32
_LAST_CHARACTER = "\U0010ffff"


def statistics(
    records: int, bounds: Mapping[str, tuple[Any, Any]], nulls: Mapping[str, int]
) -> str:
    """Return the statistics of a file as JSON; a column that is always NULL has no bounds."""
    known = {
        name: (low, high)
        for name, (low, high) in bounds.items()
        if low is not None and high is not None
    }
    return json.dumps(
        {
            "numRecords": records,
            "minValues": {name: _lower(low) for name, (low, _) in known.items()},
            "maxValues": {name: _upper(high) for name, (_, high) in known.items()},
            "nullCount": dict(nulls),
        }
    )


def _lower(value: Any) -> Any:
    """Return a lower bound of the value. The beginning of a text is one."""
    return value[:TEXT_MAX] if isinstance(value, str) else _exact(value)


def _upper(value: Any) -> Any:
    """Return an upper bound of the value."""
    if not isinstance(value, str) or len(value) <= TEXT_MAX:
        return _exact(value)
    kept = value[:TEXT_MAX].rstrip(_LAST_CHARACTER)
    # With the next character instead of the last one, the text is above all texts with that prefix.
    return kept[:-1] + _next(kept[-1]) if kept else value


def _next(character: str) -> str:
    return "\ue000" if character == "\ud7ff" else chr(ord(character) + 1)


def _exact(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value
