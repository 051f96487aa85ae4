"""Writes what this process did in the last minute, rolls minutes up to hours, and forgets old ones.

One small statement a minute and process. It is built from what requests have counted on their way,
never from messages. The lag of consumer groups is the exception: nothing counts it on its way, so
one of all brokers looks it up, less often where that takes long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from queenmq.clock import now_ms, unix_ms
from queenmq.errors import QueenError, StorageUnavailable
from queenmq.ids import random_uuid

_MINUTE_MS = 60_000
#: Delay after the end of a minute, so that calls that end with it are counted.
_AFTER_MS = 200
#: How often one broker rolls up, and how many hours it looks back.
_ROLL_UP_S = 300.0
_HOURS = 3
#: Rows removed by one statement.
_ROWS = 5_000
#: Groups of a minute, those with the most before them.
_GROUPS = 200
#: Between two looks at the lag of groups: a little less than a minute, because brokers' clocks
#: differ, and so many times as long as the last look took.
_GROUPS_PAUSE_S = 50.0
_GROUPS_REST = 30.0


class Minute(NamedTuple):
    """The rows of one minute: by queue, of the worker, and what to add to the totals."""

    queues: Sequence[Mapping[str, Any]]
    worker: Mapping[str, Any]
    totals: Mapping[str, int]


class Source(Protocol):
    """The source of counts."""

    def take(self, at: datetime) -> Minute:
        """Return the counts of this minute and reset them."""

    def put_back(self, minute: Minute) -> None:
        """Add a minute that could not be written to the next one."""


class Store(Protocol):
    """The store of the history."""

    async def record(
        self,
        queues: Sequence[Mapping[str, Any]],
        worker: Mapping[str, Any],
        totals: Mapping[str, int],
        *,
        writer: UUID,
        number: int,
    ) -> None: ...

    async def claim_pass(self, pause_s: float) -> bool: ...

    async def roll_up(self, *, hours: int) -> None: ...

    async def sweep(self, step_minutes: int, *, older_than_s: int, limit: int) -> int: ...

    async def claim_groups(self, pause_s: float, *, rest: float) -> bool: ...

    async def record_groups(self, at: datetime, *, limit: int) -> None: ...

    async def note_groups(self, took_ms: float) -> None: ...


class History:
    """The history of one process."""

    name = "history"

    def __init__(
        self, store: Store, source: Source, *, minutes_keep_s: int, hours_keep_s: int
    ) -> None:
        self._store = store
        self._source = source
        self._keep_s = {1: minutes_keep_s, 60: hours_keep_s}
        self._writer = random_uuid()
        #: Number of the next minute to write.
        self._number = 1
        #: A minute that may have been stored. It is sent again unchanged, under the same number.
        self._in_doubt: Minute | None = None

    @property
    def interval_s(self) -> float:
        """Return the time until the current minute is over."""
        return (_MINUTE_MS - unix_ms() % _MINUTE_MS + _AFTER_MS) / 1000

    async def run_once(self) -> None:
        last_ms = unix_ms() - _MINUTE_MS
        await self._record(last_ms)
        if await self._store.claim_pass(_ROLL_UP_S):
            await self._store.roll_up(hours=_HOURS)
            for step, keep_s in self._keep_s.items():
                while await self._store.sweep(step, older_than_s=keep_s, limit=_ROWS) >= _ROWS:
                    pass
        await self._look_at_groups(last_ms)

    async def finish(self) -> None:
        """Write the unfinished minute, because the process ends."""
        await self._record(unix_ms())

    async def _record(self, at_ms: int) -> None:
        if self._in_doubt is not None:
            await self._write(self._in_doubt)
        minute = self._source.take(_minute_of(at_ms))
        try:
            await self._write(minute)
        except QueenError:
            if self._in_doubt is None:
                self._source.put_back(minute)
            raise

    async def _look_at_groups(self, at_ms: int) -> None:
        if not await self._store.claim_groups(_GROUPS_PAUSE_S, rest=_GROUPS_REST):
            return
        begun_ms = now_ms()
        try:
            await self._store.record_groups(_minute_of(at_ms), limit=_GROUPS)
        finally:
            # A look that failed took its time, too.
            await self._store.note_groups(now_ms() - begun_ms)

    async def _write(self, minute: Minute) -> None:
        try:
            await self._store.record(*minute, writer=self._writer, number=self._number)
        except StorageUnavailable as error:
            if error.is_in_doubt:
                self._in_doubt = minute
            raise
        self._in_doubt = None
        self._number += 1


def _minute_of(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms // _MINUTE_MS * 60, UTC)
