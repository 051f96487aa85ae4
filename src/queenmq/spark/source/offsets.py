"""Positions of a stream, their JSON form, and the limits of a batch. Pure.

A position is the number of a transaction. The stream has read everything below it, and nothing from
it on. One number serves all partitions of all queues, so its size never grows. Beside it a stream
keeps fields that reveal messages removed unread (`count`, `queues`, `seen`) or another database
(`database`, `mark`), its own name (`query`), and, in the end of its first batch, the start of that
batch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from queenmq.errors import InvalidRequest, QueenError

#: Transaction ids have 64 bits.
XID_MAX = 2**64 - 1


class DataLoss(QueenError):
    """Messages that were to be read have been removed."""


@dataclass(frozen=True)
class Start:
    """A start or an end, as the options give it."""

    kind: Literal["earliest", "latest", "xid", "time"]
    xid: int = 0
    time: datetime | None = None


@dataclass(frozen=True)
class Position:
    """The position of a stream."""

    xid: int
    #: Messages that transactions below `xid` ever stored, if that is known.
    count: int | None = None
    #: Which queues were counted.
    queues: str | None = None
    #: The horizon when this position was taken. Earlier deletions were visible then.
    seen: int | None = None
    #: The database of this position, and the mark written there. See history.py.
    database: str | None = None
    mark: int | None = None
    query: str | None = None
    #: The very first one of a stream. Spark asks for it again when the first batch has to be
    #: repeated, and `latest` then is another place.
    is_initial: bool = False
    #: In the end of a first batch: where it began.
    start: Position | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the form that Spark keeps in its checkpoint."""
        values: dict[str, Any] = {
            "xid": str(self.xid),
            "count": None if self.count is None else str(self.count),
            "queues": self.queues,
            "seen": None if self.seen is None else str(self.seen),
            "database": self.database,
            "mark": None if self.mark is None else str(self.mark),
            "query": self.query,
            "initial": True if self.is_initial else None,
            "start": self.start.to_json() if self.start else None,
        }
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Position:
        """Read what `to_json` wrote."""
        start = values.get("start")
        return cls(
            xid=_xid(values.get("xid"), "the checkpoint"),
            count=None if values.get("count") is None else int(values["count"]),
            queues=values.get("queues"),
            seen=None if values.get("seen") is None else int(values["seen"]),
            database=values.get("database"),
            mark=None if values.get("mark") is None else int(values["mark"]),
            query=values.get("query"),
            is_initial=bool(values.get("initial")),
            start=cls.from_json(start) if start else None,
        )


def batch_bounds(start: Mapping[str, Any], end: Mapping[str, Any]) -> tuple[Position, Position]:
    """Return where a batch really begins and ends. See `Position.is_initial`."""
    first, last = Position.from_json(start), Position.from_json(end)
    return (last.start or first) if first.is_initial else first, last


def end_of_batch(first: int, following: int | None, horizon: int) -> int:
    """Return the transaction to stop before, so that no transaction is cut in two.

    `first` is the transaction of the first message that waits, `following` that of the first
    message beyond the limit, if there are as many. One transaction is read however large it is.
    """
    if following is None:
        return horizon
    return min(horizon, max(following, first + 1))


def missing_messages(start: Position, end: Position, queues: str, found: int) -> int:
    """Return how many messages of a batch are missing, or 0 if that is unknown."""
    if start.count is None or end.count is None or not start.queues == end.queues == queues:
        return 0
    return max(0, end.count - start.count - found)


def has_gone_back(start: Position, end: Position) -> bool:
    """Return whether fewer messages were ever stored at the end of a batch than at its start."""
    if start.count is None or end.count is None or start.queues != end.queues:
        return False
    return end.count < start.count


def digest(ids: Iterable[UUID]) -> str:
    """Return a short name for a set of queues or partitions."""
    text = ",".join(sorted(str(item) for item in ids))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def parse_offset(text: str, option: str) -> Start:
    """Parse `earliest`, `latest` or `{"xid": n}`."""
    word = text.strip().lower()
    if word == "earliest":
        return Start("earliest")
    if word == "latest":
        return Start("latest")
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict) or "xid" not in values:
        raise InvalidRequest(f'{option} must be earliest, latest or {{"xid": n}}, not {text!r}')
    return Start("xid", xid=_xid(values["xid"], option))


def parse_time(text: str, option: str) -> Start:
    """Return an ISO time with its zone, or milliseconds since 1970 as Spark's other sources take
    them.
    """
    try:
        if text.strip().isdigit():
            time = datetime.fromtimestamp(int(text) / 1000, UTC)
        else:
            time = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError, OSError):
        time = None
    if time is None or time.tzinfo is None:
        raise InvalidRequest(
            f"{option} must be milliseconds since 1970 or a time like 2026-01-31T12:00:00+00:00,"
            f" not {text!r}"
        )
    return Start("time", time=time)


def _xid(value: object, source: str) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and int(text) <= XID_MAX):
        raise InvalidRequest(f"the xid in {source} must be a transaction number, not {text!r}")
    return int(text)
