"""Runs jobs again and again: spaces their runs, survives their errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from queenmq.engine.lifecycle import LoopService
from queenmq.errors import QueenError

logger = logging.getLogger(__name__)


class Job(Protocol):
    """Work that is done again and again. One run must be safe to repeat and to cut off."""

    @property
    def name(self) -> str: ...

    @property
    def interval_s(self) -> float:
        """Return the pause before the next run."""

    async def run_once(self) -> None:
        """Do what there is to do now."""


class Periodic(LoopService):
    """The service that runs one job.

    With `may_run`, a job that can wait misses a run under load, but never two in a row.
    """

    def __init__(self, job: Job, may_run: Callable[[], bool] | None = None) -> None:
        super().__init__(job.name)
        self._job = job
        self._may_run = may_run

    async def _run(self) -> None:
        has_waited = False
        while True:
            await asyncio.sleep(self._job.interval_s)
            has_waited = not (has_waited or self._may_run is None or self._may_run())
            if has_waited:
                continue
            try:
                await self._job.run_once()
                self._is_failing = False
            except QueenError as error:
                facts = {"event": "service_failed", "service": self.name}
                logger.warning("%s: %s", self.name, error, extra=facts)
            except Exception:
                # A defect must be seen, and must not end the service for the life of the broker.
                self._is_failing = True
                facts = {"event": "service_broke", "service": self.name}
                logger.exception("The service %s failed unexpectedly.", self.name, extra=facts)
