"""The last errors of queries are stored one write at a time, and none is lost at a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from uuid import UUID

import pytest

from queenmq.engine.streams import error_notes
from queenmq.engine.streams.error_notes import ErrorNotes
from tests.support.broker import SOON_S
from tests.support.waiting import wait_until_async

_QUERY = UUID(int=1)


class Writer:
    """Stores errors; the first write ends when it is let."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.stored: list[str] = []
        self.may_end = asyncio.Event()

    async def write(self, errors: Mapping[UUID, str]) -> None:
        is_first = not self.begun
        self.begun += errors.values()
        if is_first:
            await self.may_end.wait()
        self.stored += errors.values()


async def test_drain_waits_for_a_slow_write_and_then_stores_the_later_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(error_notes, "_PAUSE_S", 0.0)
    writer = Writer()
    notes = ErrorNotes(writer.write)
    notes.note(_QUERY, "first")
    await wait_until_async(lambda: writer.begun, timeout_s=SOON_S, what="the first write")
    notes.note(_QUERY, "second")
    drained = asyncio.create_task(notes.drain())
    done, _ = await asyncio.wait([drained], timeout=0.02)
    assert not done and writer.begun == ["first"]
    writer.may_end.set()
    await asyncio.wait_for(drained, SOON_S)
    assert writer.stored == ["first", "second"]


async def test_drain_stores_what_still_pauses() -> None:
    writer = Writer()
    writer.may_end.set()
    notes = ErrorNotes(writer.write)
    notes.note(_QUERY, "older")
    notes.note(_QUERY, "newer")
    await asyncio.wait_for(notes.drain(), SOON_S)
    assert writer.stored == ["newer"]
