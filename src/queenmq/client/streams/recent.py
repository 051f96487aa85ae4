"""Remembers the partitions that a stream has worked on, for windows that end when nothing comes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from queenmq.client.streams.batch import Place
from queenmq.clock import now_ms

#: A partition is forgotten after this time without a message.
_KEPT_MS = 300_000


@dataclass(slots=True)
class _Seen:
    place: Place
    at_ms: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class RecentPlaces:
    """Partitions by the time of their last message; one task at a time works on each."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    @contextlib.asynccontextmanager
    async def touch(self, place: Place) -> AsyncIterator[None]:
        """Work on a batch of this partition."""
        seen = self._seen.setdefault(place.id, _Seen(place, now_ms()))
        async with seen.lock:
            try:
                yield
            finally:
                seen.at_ms = now_ms()

    @contextlib.asynccontextmanager
    async def hold(self, place: Place) -> AsyncIterator[None]:
        """Work on this partition without a batch."""
        seen = self._seen.get(place.id)
        if seen is None:
            yield
            return
        async with seen.lock:
            yield

    def find_idle(self, quiet_s: float) -> list[Place]:
        """Return the partitions that have been quiet for so long.

        One with a backlog is not quiet: its windows may have ended, but messages of them wait.
        """
        now = now_ms()
        for place_id, seen in list(self._seen.items()):
            if seen.at_ms < now - _KEPT_MS and not seen.lock.locked():
                del self._seen[place_id]
        return [one.place for one in self._seen.values() if one.at_ms <= now - quiet_s * 1000]
