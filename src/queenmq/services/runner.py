"""Owns the loops of background services: starts them, spaces their runs, survives their errors,
stops them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from queenmq.errors import QueenError

logger = logging.getLogger(__name__)


class Service(Protocol):
    """Periodic work. A run must be safe to repeat and to cancel."""

    @property
    def name(self) -> str: ...

    @property
    def interval_s(self) -> float:
        """Return the pause before the next run."""

    async def run_once(self) -> None:
        """Do one pass."""


class Runner:
    """Runs services until stopped. Safe to stop twice or before the start."""

    def __init__(self, services: Sequence[Service]) -> None:
        self._services = services
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start all loops."""
        self._tasks = [
            asyncio.create_task(_loop(service), name=service.name) for service in self._services
        ]

    async def stop(self) -> None:
        """Stop all loops."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []


async def _loop(service: Service) -> None:
    while True:
        await asyncio.sleep(service.interval_s)
        try:
            await service.run_once()
        except QueenError as error:
            facts = {"event": "service_failed", "service": service.name}
            logger.warning("%s: %s", service.name, error, extra=facts)
        except Exception:
            # Log a bug, but keep the service running.
            facts = {"event": "service_broke", "service": service.name}
            logger.exception("The service %s failed unexpectedly.", service.name, extra=facts)
