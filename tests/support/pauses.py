"""Pauses of retrying code: noted, and over at once, so that tests need not measure time."""

from __future__ import annotations

import asyncio

import pytest


def skip_pauses(monkeypatch: pytest.MonkeyPatch, *, least_s: float) -> list[float]:
    """Return the list that each pause of this length or more is noted in from now on."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(delay: float) -> None:
        if delay >= least_s:
            pauses.append(delay)
            delay = 0
        await sleep(delay)

    monkeypatch.setattr(asyncio, "sleep", note)
    return pauses
