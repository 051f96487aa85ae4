"""Stores the last error of each query, at most once a second, however often clients fail."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from uuid import UUID

from queenmq.errors import QueenError

_PAUSE_S = 1.0
_LENGTH_MAX = 1_000
#: Queries of one note; more are noted when they fail again.
_QUERIES_MAX = 1_000


class ErrorNotes:
    """Errors that wait to be stored."""

    def __init__(self, write: Callable[[Mapping[UUID, str]], Awaitable[None]]) -> None:
        self._write = write
        self._waiting: dict[UUID, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def note(self, query_id: UUID, error: str) -> None:
        """Store an error soon."""
        if len(self._waiting) < _QUERIES_MAX:
            self._waiting[query_id] = error[:_LENGTH_MAX]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self._start)

    async def drain(self) -> None:
        """Store all waiting errors."""
        while self._timer is not None or self._is_writing:
            if self._timer is not None and not self._is_writing:
                self._timer.cancel()
                self._start()
            if self._task is not None:
                await self._task

    @property
    def _is_writing(self) -> bool:
        return self._task is not None and not self._task.done()

    def _start(self) -> None:
        if self._is_writing:
            # Writes that overlap could leave the older error.
            self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self._start)
            return
        self._timer = None
        waiting, self._waiting = self._waiting, {}
        self._task = asyncio.create_task(self._run(waiting), name="stream-errors")

    async def _run(self, waiting: Mapping[UUID, str]) -> None:
        # An outage loses the note. The clients have the errors.
        with contextlib.suppress(QueenError):
            await self._write(waiting)
