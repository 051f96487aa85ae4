"""Detects that the database is down or hangs, and that it is back.

A failed or hanging call is only a suspicion, because it may be just that connection. A probe over
its own connection decides. It writes, because a read-only server or one without disk space cannot
be used either. While the database is down the probe repeats, and all other calls fail at once.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from queenmq.clock import now_ms
from queenmq.engine.lifecycle import LoopService
from queenmq.engine.news import News
from queenmq.errors import QueenError, StorageUnavailable

logger = logging.getLogger(__name__)

#: Between two probes: the first and the longest pause, and their jitter.
_PAUSE_S = 0.05
_PAUSE_S_MAX = 1.0
_JITTER = 0.3
#: How often to check for hanging calls.
_LOOK_S = 0.5


def pause_s(attempt: int, chance: float) -> float:
    """Return the pause after this many failed probes. `chance` is between 0 and 1."""
    pause = min(_PAUSE_S * (1 << min(attempt, 30)), _PAUSE_S_MAX)
    return pause * (1 - _JITTER + 2 * _JITTER * chance)


class OutageWatch(LoopService):
    """Watches whether the database is down, and publishes every change. Belongs to one event
    loop.
    """

    def __init__(
        self,
        probe: Callable[[], Awaitable[None]],
        *,
        oldest_call_ms: Callable[[], float],
        hang_ms: int,
        news: News,
    ) -> None:
        super().__init__("outage-watch")
        self._probe = probe
        self._oldest_call_ms = oldest_call_ms
        self._hang_ms = hang_ms
        self._news = news
        self._prober: asyncio.Task[None] | None = None
        self._probed_ms = 0.0
        self._is_stopped = False
        self.is_down = False
        #: The error of the last probe, while the database is down.
        self.error: Exception | None = None

    async def start(self) -> None:
        """Begin to look for calls that hang."""
        self._is_stopped = False
        await super().start()

    async def stop(self) -> None:
        """Stop looking and probing: calls may still fail while connections close."""
        self._is_stopped = True
        await super().stop()
        if self._prober is not None:
            self._prober.cancel()
            await asyncio.gather(self._prober, return_exceptions=True)

    def suspect(self) -> None:
        """Probe the database, because a call failed."""
        if self._prober is None and not self._is_stopped:
            self._prober = asyncio.create_task(self._find_out(), name="outage-probe")

    def begin_down(self, error: Exception) -> None:
        """Count the database as down from the start, until a probe succeeds."""
        self._turn(True, error)
        self.suspect()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            # A call may take long for a good reason: check again, but not all the time.
            now = now_ms()
            if min(self._oldest_call_ms(), now - self._probed_ms) > self._hang_ms:
                self._probed_ms = now
                self.suspect()

    async def _find_out(self) -> None:
        attempt = 0
        try:
            while (error := await self._try()) is not None:
                self._turn(True, error)
                await asyncio.sleep(pause_s(attempt, random.random()))  # noqa: S311 - a pause
                attempt += 1
            self._turn(False, None)
        finally:
            self._prober = None

    async def _try(self) -> Exception | None:
        try:
            await self._probe()
        except QueenError as error:
            self._is_failing = False
            return error
        except Exception as error:
            self._is_failing = True
            # Survive any error: if the probes ended, the database would stay down forever.
            logger.exception(
                "A probe of the database failed unexpectedly.", extra={"event": "probe_broke"}
            )
            return error
        self._is_failing = False
        return None

    def _turn(self, is_down: bool, error: Exception | None) -> None:
        is_new = _reason_of(error) != _reason_of(self.error)
        self.error = error
        if is_down == self.is_down:
            if is_down and is_new:
                facts = {"event": "database_still_down", "reason": _reason_of(error)}
                logger.error("The database is still down: %s", error, extra=facts)
            return
        self.is_down = is_down
        if is_down:
            facts = {"event": "database_down", "reason": _reason_of(error)}
            logger.error("The database is down. Pushes go to the spool: %s", error, extra=facts)
            self._news.database_down()
        else:
            logger.warning("The database is back.", extra={"event": "database_back"})
            self._news.database_up()


def _reason_of(error: Exception | None) -> str:
    return error.reason if isinstance(error, StorageUnavailable) else type(error).__name__
