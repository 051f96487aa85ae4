"""GET /api/v1/analytics/...: what brokers did, by minute or hour, queue and worker."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.errors import InvalidRequest
from queenmq.server.answers.history_answers import (
    by_bucket,
    group_lag_point,
    lag_of,
    lag_point,
    queue_point,
    replicas_of,
    time_range,
    total,
    worker_point,
    worker_summary,
    workers_of,
)
from queenmq.server.answers.responses import json_answer
from queenmq.server.requests.checks import check_text
from queenmq.server.requests.queries import parse_integer, parse_query
from queenmq.server.requests.times import Span, iso, parse_span, step_minutes
from queenmq.server.routing.spec import route
from queenmq.storage.stores.observation.history import HistoryStore
from queenmq.storage.stores.observation.postgres_stats import PostgresStatsStore
from queenmq.storage.stores.observation.status import StatusStore

#: Of a request that names no time.
_SPAN = timedelta(hours=1)
#: Queues of one answer, unless it asks for more: the busiest.
_QUEUES = 50
_QUEUES_MAX = 1_000
#: Groups of one answer: a minute of the history has no more.
_GROUPS_MAX = 200
_ANALYTICS = "/api/v1/analytics/"
_TIMES: dict[str, Any] = {"from": str, "to": str}
_OF_WORKERS: dict[str, Any] = {**_TIMES, "hostname": str, "workerId": int}
_OF_QUEUES: dict[str, Any] = {**_TIMES, "queue": str, "limit": int}


class HistoryRoutes:
    """Read models; nothing here changes anything."""

    def __init__(
        self, store: HistoryStore, status: StatusStore, postgres: PostgresStatsStore
    ) -> None:
        self._store = store
        self._status = status
        self._postgres = postgres

    @route("GET", _ANALYTICS + "system-metrics", wire.SystemMetrics, query=_OF_WORKERS)
    async def system_metrics(self, request: Request) -> Response:
        """Return the gauges of each worker."""
        span, minutes, rows = await self._workers(request)
        replicas = replicas_of(rows, minutes)
        return json_answer(
            wire.SystemMetrics(
                time_range=time_range(span),
                replicas=replicas,
                replica_count=len(replicas),
                bucket_minutes=minutes,
                point_count=sum(len(one.time_series) for one in replicas),
            )
        )

    @route("GET", _ANALYTICS + "worker-metrics", wire.WorkerMetrics, query=_OF_WORKERS)
    async def worker_metrics(self, request: Request) -> Response:
        """Return all workers, step by step and added up, and the queues that they served."""
        span, minutes, rows = await self._workers(request)
        points = [
            worker_point(start, mine, minutes) for start, mine in by_bucket(rows, minutes).items()
        ]
        stretch = await self._store.cut(*span, bucket_minutes=minutes)
        names = await self._store.busiest(stretch, limit=_QUEUES)
        by_queue: dict[str, list[Any]] = {}
        for row in await self._store.queues(names, stretch, bucket_minutes=minutes):
            by_queue.setdefault(row["queue"], []).append(row)
        overview = await self._status.overview()
        return json_answer(
            wire.WorkerMetrics(
                time_range=time_range(span),
                bucket_minutes=minutes,
                point_count=len(points),
                time_series=points,
                workers=workers_of(rows),
                queues=[
                    wire.QueueShare(
                        queue_name=queue, pop_count=total(mine, "pop_messages"), **lag_of(mine)
                    )
                    for queue, mine in by_queue.items()
                ],
                summary=worker_summary(rows, overview["pending"]),
            )
        )

    @route("GET", _ANALYTICS + "queue-lag", list[wire.QueueLagPoint], query=_OF_QUEUES)
    async def queue_lag(self, request: Request) -> Response:
        """Return how long delivered messages had waited, by queue."""
        _, _, rows = await self._queues(request)
        return json_answer([lag_point(row) for row in rows if row["lag_count"]])

    @route("GET", _ANALYTICS + "queue-ops", wire.QueueOps, query=_OF_QUEUES)
    async def queue_ops(self, request: Request) -> Response:
        """Return what was done, by queue."""
        span, minutes, rows = await self._queues(request)
        return json_answer(
            wire.QueueOps(
                time_range=time_range(span),
                bucket_minutes=minutes,
                series=[queue_point(row, minutes) for row in rows],
                queues=sorted({row["queue"] for row in rows}),
            )
        )

    @route(
        "GET",
        _ANALYTICS + "group-lag",
        wire.GroupLag,
        query={**_OF_QUEUES, "consumerGroup": str},
    )
    async def group_lag(self, request: Request) -> Response:
        """Return how far consumer groups were behind, group by group."""
        query = parse_query(request.scope["query_string"])
        span = parse_span(query, default=_SPAN)
        minutes = step_minutes(span)
        rows = await self._store.groups(
            check_text("queue", query.get("queue")) or None,
            check_text("consumerGroup", query.get("consumerGroup")) or None,
            await self._store.cut(*span, bucket_minutes=minutes),
            bucket_minutes=minutes,
            limit=min(max(parse_integer(query, "limit", _QUEUES), 1), _GROUPS_MAX),
        )
        series = [group_lag_point(row) for row in rows]
        return json_answer(wire.GroupLag(time_range(span), minutes, series))

    @route(
        "GET",
        _ANALYTICS + "queue-parked-replicas",
        wire.ParkedPops,
        query={**_TIMES, "queue": str},
    )
    async def parked(self, request: Request) -> Response:
        """Return waiting pops by minute, queue and worker."""
        query = parse_query(request.scope["query_string"])
        span = parse_span(query, default=_SPAN)
        queue = check_text("queue", query.get("queue")) or None
        series = [_parked_point(row) for row in await self._store.parked(*span, queue=queue)]
        replicas = sorted({(one.hostname, one.worker_id) for one in series})
        return json_answer(
            wire.ParkedPops(
                time_range=time_range(span),
                series=series,
                replicas=[wire.Replica(*one) for one in replicas],
            )
        )

    @route("GET", _ANALYTICS + "postgres-stats", wire.PostgresStats)
    async def postgres_stats(self, _: Request) -> Response:
        """Return how PostgreSQL is doing."""
        return json_answer(msgspec.convert(await self._postgres.read(), wire.PostgresStats))

    async def _workers(self, request: Request) -> tuple[Span, int, list[Any]]:
        query = parse_query(request.scope["query_string"])
        span = parse_span(query, default=_SPAN)
        minutes = step_minutes(span)
        worker = query.get("workerId") or None
        if worker is not None and not worker.isdecimal():
            raise InvalidRequest(f"workerId {worker!r} is not a number; use 0, 1, 2 ...")
        stretch = await self._store.cut(*span, bucket_minutes=minutes)
        rows = await self._store.workers(
            stretch,
            hostname=check_text("hostname", query.get("hostname")) or None,
            worker_id=None if worker is None else min(int(worker), 2**31 - 1),
        )
        return span, minutes, rows

    async def _queues(self, request: Request) -> tuple[Span, int, list[Any]]:
        query = parse_query(request.scope["query_string"])
        span = parse_span(query, default=_SPAN)
        minutes = step_minutes(span)
        stretch = await self._store.cut(*span, bucket_minutes=minutes)
        queue = check_text("queue", query.get("queue")) or None
        limit = min(max(parse_integer(query, "limit", _QUEUES), 1), _QUEUES_MAX)
        names = [queue] if queue else await self._store.busiest(stretch, limit=limit)
        return span, minutes, await self._store.queues(names, stretch, bucket_minutes=minutes)


def _parked_point(row: Any) -> wire.ParkedPoint:
    hostname, worker_id, _ = row["worker"].rsplit("/", 2)
    return wire.ParkedPoint(
        bucket=iso(row["at"]),
        queue_name=row["queue"],
        hostname=hostname,
        worker_id=int(worker_id),
        parked_count=row["parked"],
    )
