"""Counts and rates for dashboards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.clock import now_ms
from queenmq.errors import InvalidRequest, NotFound
from queenmq.server.answers.history_answers import (
    by_bucket,
    efficiency_of,
    queue_columns,
    requests_of,
    status_columns,
    total,
    workers_of,
)
from queenmq.server.answers.responses import json_answer
from queenmq.server.answers.status_answers import (
    ProcessFacts,
    consumption_of,
    counters_of,
    options_of,
    overview_of,
    partition_of,
    point_of,
    summary_of,
    sums_of,
    worker_of,
)
from queenmq.server.auth.callers import identity_of, may_read_messages
from queenmq.server.auth.reach import list_within
from queenmq.server.requests.checks import check_name, check_text, quote
from queenmq.server.requests.pages import PAGE, PAGE_MAX, parse_page
from queenmq.server.requests.queries import parse_query
from queenmq.server.requests.times import Span, iso, parse_span, step_minutes, steps_of
from queenmq.server.routing.spec import route
from queenmq.settings import Settings
from queenmq.storage.spool import SpoolStats
from queenmq.storage.stores.observation.history import HistoryStore
from queenmq.storage.stores.observation.status import QueueScope, StatusStore

#: Searches in partitions for one answer; fewer partitions are counted where there are many steps.
_SEARCHES_MAX = 10_000
#: The overview is computed at most this often.
_OVERVIEW_MS = 2_000
#: Queues of a namespace or task whose history is added up.
_QUEUES_MAX = 1_000
_SCOPE: dict[str, Any] = {"queue": str, "namespace": str, "task": str}
_TIMES: dict[str, Any] = {"from": str, "to": str}
_INTERVALS = {"minute": 60, "hour": 3_600, "day": 86_400}


class Recorded(NamedTuple):
    """Rows of the history, and what a step has of them."""

    rows: Sequence[Any]
    workers: Sequence[Any]
    columns: Callable[[Sequence[Any], int], dict[str, Any]]


class StatusRoutes:
    """Read models; nothing here changes anything."""

    def __init__(
        self,
        store: StatusStore,
        history: HistoryStore,
        settings: Settings,
        *,
        process: Callable[[], ProcessFacts],
        spool_stats: Callable[[], SpoolStats],
        is_down: Callable[[], bool],
    ) -> None:
        self._store = store
        self._history = history
        self._settings = settings
        self._process = process
        self._spool_stats = spool_stats
        self._is_down = is_down
        self._overview: wire.Overview | None = None
        self._overview_ms = float("-inf")
        self._consumed = 0
        self._lock = asyncio.Lock()

    @route("GET", "/api/v1/resources/overview", wire.Overview)
    async def overview(self, request: Request) -> Response:
        """Return all queues, added up; computed every few seconds at most."""
        overview = await self._load_overview(_OVERVIEW_MS)
        age_s = (now_ms() - self._overview_ms) / 1000
        return json_answer(msgspec.structs.replace(overview, stats_age=round(age_s, 3)))

    @route("POST", "/api/v1/stats/refresh", wire.StatsRefreshed)
    async def refresh(self, request: Request) -> Response:
        """Compute the cached overview again."""
        began = now_ms()
        await self._load_overview(0)
        took = round(now_ms() - began, 1)
        return json_answer(wire.StatsRefreshed(True, wire.OverviewRefresh(True, took)))

    async def _load_overview(self, age_max_ms: float) -> wire.Overview:
        asked = now_ms()
        async with self._lock:
            # Requests that waited for another one's query share its result.
            if self._overview is not None and self._overview_ms >= asked - age_max_ms:
                return self._overview
            began = now_ms()
            row = await self._store.overview()
            passed_s = (began - self._overview_ms) / 1000
            is_first = self._overview is None
            consumed = max(0, row["total_consumed"] - self._consumed)
            rate = 0.0 if is_first or passed_s <= 0 else consumed / passed_s
            self._overview = overview_of(row, processed_rate=round(rate, 3))
            self._overview_ms, self._consumed = began, row["total_consumed"]
            return self._overview

    @route("GET", "/api/v1/status", wire.Status, query={**_TIMES, **_SCOPE})
    async def status(self, request: Request) -> Response:
        """Return the throughput in steps, and the state of the queues of a scope."""
        query = parse_query(request.scope["query_string"])
        span = parse_span(query, default=timedelta(hours=1))
        minutes, scope = step_minutes(span), _scope(query)
        recorded = await self._read_history(scope, span, minutes)
        points, is_cut = await self._throughput(scope, span, minutes, recorded)
        queues = await self._store.queues(scope, limit=PAGE_MAX, offset=0)
        leases = await self._store.leases(scope)
        dead_letters, top_errors = await self._store.dead_letters(scope)
        return json_answer(
            wire.Status(
                time_range=wire.TimeRange(iso(span.start), iso(span.end)),
                bucket_minutes=minutes,
                point_count=len(points),
                throughput=points,
                is_cut=is_cut,
                queues=[consumption_of(row) for row in queues],
                messages=sums_of(queues, requests_of(recorded.rows), efficiency_of(recorded.rows)),
                leases=wire.LeaseCounts(
                    leases["active"],
                    leases["partitions"],
                    leases["messages"],
                    total_acked=total(recorded.rows, "ack_success"),
                ),
                dead_letter_queue=wire.DeadLetterCounts(
                    dead_letters["total"],
                    dead_letters["partitions"],
                    [wire.ErrorCount(row["error"], row["count"]) for row in top_errors]
                    if may_read_messages(request)
                    else [],
                ),
                workers=workers_of(recorded.workers) or [worker_of(self._process())],
                errors=wire.ErrorCounts(
                    total(recorded.workers, "db_errors"),
                    total(recorded.rows, "ack_failed"),
                    dead_letters["total"],
                ),
                stats_age=0,
            )
        )

    async def _read_history(self, scope: QueueScope, span: Span, minutes: int) -> Recorded:
        """Read the history of a scope: of its queues, or of all workers when it names none."""
        stretch = await self._history.cut(*span, bucket_minutes=minutes)
        workers = await self._history.workers(stretch)
        if scope == QueueScope():
            return Recorded(workers, workers, status_columns)
        names = await self._history.in_scope(*scope, limit=_QUEUES_MAX)
        rows = await self._history.queues(names, stretch, bucket_minutes=minutes)
        return Recorded(rows, workers, queue_columns)

    async def _throughput(
        self, scope: QueueScope, span: Span, minutes: int, recorded: Recorded
    ) -> tuple[list[wire.ThroughputPoint], bool]:
        """Return the steps, newest first, and whether partitions were left out."""
        by_start = by_bucket(recorded.rows, minutes)
        starts, counts, is_cut = await self._count(scope, span, timedelta(minutes=minutes))
        points = [
            point_of(
                start,
                count,
                recorded.columns(by_start.get(start, ()), minutes),
                seconds=60 * minutes,
            )
            for start, count in zip(starts, counts, strict=True)
        ]
        return points[::-1], is_cut

    async def _count(
        self, scope: QueueScope, span: Span, step: timedelta
    ) -> tuple[list[Any], list[int], bool]:
        starts = steps_of(span, step)
        counts = await self._store.count_by_time(
            scope,
            starts[0],
            span.end,
            step_s=int(step.total_seconds()),
            partitions_max=max(10, _SEARCHES_MAX // len(starts)),
        )
        return starts, [counts.by_start.get(start, 0) for start in starts], counts.is_cut

    @route(
        "GET",
        "/api/v1/status/analytics",
        wire.Analytics,
        query={"interval": str, **_TIMES, **_SCOPE},
    )
    async def analytics(self, request: Request) -> Response:
        """Return messages pushed in each minute, hour or day."""
        query = parse_query(request.scope["query_string"])
        interval = query.get("interval") or "hour"
        if interval not in _INTERVALS:
            raise InvalidRequest(f"interval {quote(interval)} is unknown; use minute, hour or day")
        span = parse_span(query, default=timedelta(days=1))
        step = timedelta(seconds=_INTERVALS[interval])
        starts, counts, is_cut = await self._count(_scope(query), span, step)
        return json_answer(
            wire.Analytics(
                data_points=[
                    wire.DataPoint(iso(start), count)
                    for start, count in zip(starts, counts, strict=True)
                ],
                interval=interval,
                start=iso(span.start),
                end=iso(span.end),
                is_cut=is_cut,
            )
        )

    @route(
        "GET",
        "/api/v1/status/queues",
        wire.QueueStatsList,
        query={"namespace": str, "task": str, **PAGE},
    )
    async def queues(self, request: Request) -> Response:
        """Return a page of queues, newest first."""
        query = parse_query(request.scope["query_string"])
        page = parse_page(query)
        scope = _scope(query)._replace(queue=None)
        rows = await list_within(
            identity_of(request),
            lambda count, start: self._store.queues(scope, limit=count, offset=start),
            lambda row: str(row["name"]),
            limit=page.limit,
            offset=page.offset,
        )
        return json_answer(wire.QueueStatsList([summary_of(row) for row in rows], page))

    @route("GET", "/api/v1/status/queues/{queue:name}", wire.QueueStatus, query=PAGE)
    async def queue(self, request: Request) -> Response:
        """Return one queue with its options, a page of its partitions, and the counts of all."""
        query = parse_query(request.scope["query_string"])
        page = parse_page(query, default=1_000)
        name = request.path_params["queue"]
        check_name("queue", name, length_max=self._settings.max_name_length)
        queue = await self._store.queue(name)
        if queue is None:
            raise NotFound(f"queue {quote(name)} does not exist; check its name")
        rows, totals = await self._store.partitions(
            queue["id"], limit=page.limit, offset=page.offset
        )
        counts = counters_of(totals)
        return json_answer(
            wire.QueueStatus(
                queue=options_of(queue),
                partitions=[partition_of(row) for row in rows],
                totals=wire.QueueTotals(
                    messages=counts,
                    partitions=totals["partitions"],
                    **msgspec.structs.asdict(counts),
                ),
                pagination=page,
            )
        )

    @route("GET", "/api/v1/status/buffers", wire.Buffers)
    async def buffers(self, request: Request) -> Response:
        """Return what this broker keeps on its disk."""
        stats, process = self._spool_stats(), self._process()
        return json_answer(
            wire.Buffers(
                pending=stats.pending_records,
                failed=stats.aside_records,
                db_healthy=not self._is_down(),
                worker=f"{process.hostname}:{process.pid}",
            )
        )


def _scope(query: dict[str, str]) -> QueueScope:
    return QueueScope(
        *(check_text(name, query.get(name)) or None for name in ("queue", "namespace", "task"))
    )
