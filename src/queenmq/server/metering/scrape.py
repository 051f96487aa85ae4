"""Renders a scrape: the counts of all workers, and the facts of the database."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from queenmq.clock import now_ms
from queenmq.errors import QueenError
from queenmq.metrics.registry import Registry
from queenmq.metrics.text import MetricFamily, encode, gauge
from queenmq.server.metering.families import (
    cluster_families,
    group_families,
    minute_families,
    postgres_families,
    queue_families,
    server_counter_families,
)
from queenmq.storage.stores.observation.history import HistoryStore
from queenmq.storage.stores.observation.metrics import MetricsStore

logger = logging.getLogger(__name__)

#: How long series of the database are cached, at least; longer if the queries are slow.
_AGE_MS = 10_000
_SHARE = 20
#: All questions of a scrape together; Prometheus gives up after ten seconds.
_BUDGET_MS = 5_000

#: Requests of others are served after so many lines, a fraction of a millisecond.
_SLICE_LINES = 100

T = TypeVar("T")


class Kept(Generic[T]):
    """A cached answer of the database. Queries take at most a twentieth of the time."""

    def __init__(self, ask: Callable[[], Awaitable[T]]) -> None:
        self._ask = ask
        self._lock = asyncio.Lock()
        self._answer: T | None = None
        self._error: Exception | None = None
        self._until_ms = 0.0

    async def get(self) -> T:
        """Return the answer, and query again if it is too old. A failure is cached as well."""
        async with self._lock:
            began = now_ms()
            if began >= self._until_ms:
                self._answer, self._error = None, None
                try:
                    self._answer = await self._ask()
                except (QueenError, TimeoutError) as error:
                    self._error = error
                took = now_ms() - began
                self._until_ms = now_ms() + max(_AGE_MS, took * _SHARE)
            if self._error is not None:
                raise self._error
            assert self._answer is not None
            return self._answer


class Scrape:
    """One broker's answer to Prometheus. `series_max` bounds the queues with their own series."""

    def __init__(
        self,
        registry: Registry,
        metrics: MetricsStore,
        history: HistoryStore,
        *,
        series_max: int,
        publish: Callable[[], None],
        is_down: Callable[[], bool],
    ) -> None:
        self._registry = registry
        self._publish = publish
        self._is_down = is_down
        self._history = history
        self._metrics = metrics
        self._queues = Kept(lambda: metrics.queues(limit=series_max))
        self._groups = Kept(lambda: metrics.groups(limit=series_max))
        self._minute = Kept(lambda: history.last_minute(limit=series_max))
        self._postgres = Kept(metrics.postgres)

    async def render(self) -> bytes:
        """Return all series as text. Without the database, those that it knows are left out."""
        self._publish()
        families = self._registry.collect()
        known = [] if self._is_down() else await self._ask_database()
        has_database = gauge(
            "queen_database_series", "1 when this scrape has the series of the database.",
            bool(known),
        )  # fmt: skip
        return await _write(encode(itertools.chain(families, [has_database], known)))

    async def _ask_database(self) -> list[MetricFamily]:
        """Query each part by itself, so that a failure does not affect the others."""
        parts: list[Callable[[], Awaitable[Iterable[MetricFamily]]]] = [
            # Not kept: a counter that two workers had kept for different times could fall.
            lambda: _build_families(self._history.totals(), cluster_families),
            lambda: _build_families(self._metrics.server(), server_counter_families),
            lambda: _build_families(self._queues.get(), queue_families),
            lambda: _build_families(self._groups.get(), group_families),
            lambda: _build_families(self._minute.get(), minute_families),
            lambda: _build_families(self._postgres.get(), postgres_families),
        ]
        known: list[MetricFamily] = []
        ends_ms = now_ms() + _BUDGET_MS
        for part in parts:
            try:
                async with asyncio.timeout(max(0.0, ends_ms - now_ms()) / 1000):
                    known += await part()
            except (QueenError, TimeoutError) as error:
                facts = {"event": "scrape_incomplete"}
                text = "A scrape has not all series of the database: %s"
                logger.warning(text, str(error) or "out of time", extra=facts)
        return known


async def _build_families(
    rows: Awaitable[T], families: Callable[[T], Iterable[MetricFamily]]
) -> Iterable[MetricFamily]:
    return list(families(await rows))


async def _write(lines: Iterable[str]) -> bytes:
    """Return the text. Other requests are served in between."""
    text = ""
    lines = iter(lines)
    while part := "".join(itertools.islice(lines, _SLICE_LINES)):
        text += part
        await asyncio.sleep(0)
    return text.encode("utf-8", "replace")
