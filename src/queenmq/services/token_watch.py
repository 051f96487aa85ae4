"""Learns which API tokens and sessions were revoked elsewhere."""

from __future__ import annotations

import contextlib
from typing import Protocol

from queenmq.errors import StorageUnavailable


class Refreshed(Protocol):
    """The cache of tokens."""

    async def refresh(self) -> None: ...


class TokenWatch:
    """Applies every revocation within about a second."""

    name = "token-watch"
    interval_s = 1.0

    def __init__(self, gate: Refreshed) -> None:
        self._gate = gate

    async def run_once(self) -> None:
        # During an outage nothing can be revoked, and known tokens stay valid.
        with contextlib.suppress(StorageUnavailable):
            await self._gate.refresh()
