"""Asks again and again which of several hosts is the primary."""

from __future__ import annotations

import asyncio
import logging

from queenmq.engine.lifecycle import LoopService
from queenmq.storage.connection.connecting import Connector

logger = logging.getLogger(__name__)

#: How often the other hosts are asked whether one of them was promoted.
_LOOK_AROUND_S = 1.0


class PrimaryWatch(LoopService):
    """Asks the other hosts of the URL whether one of them was promoted."""

    def __init__(self, connector: Connector) -> None:
        super().__init__("primary-watch")
        self._connector = connector

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_AROUND_S)
            try:
                await self._connector.follow_primary()
                self._is_failing = False
            except Exception:
                # A defect must be seen, and must not leave the broker with an outdated server.
                self._is_failing = True
                facts = {"event": "service_broke", "service": self.name}
                logger.exception("Asking the other hosts failed unexpectedly.", extra=facts)
