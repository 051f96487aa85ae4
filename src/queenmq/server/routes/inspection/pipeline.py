"""Routes of the results of jobs on Spark."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.errors import NotFound
from queenmq.server.answers.responses import json_answer
from queenmq.server.auth.callers import may_read_messages
from queenmq.server.requests.checks import check_text, check_uuid, quote
from queenmq.server.requests.pages import PAGE, parse_page
from queenmq.server.requests.queries import parse_query, parse_time
from queenmq.server.requests.times import iso, iso_or_none
from queenmq.server.routing.spec import route
from queenmq.storage.stores.pipeline import TABLES, PipelineStore, ResultFilter, Row

_PAGE = 1_000


class PipelineRoutes:
    """Read models; nothing here changes anything."""

    def __init__(self, store: PipelineStore) -> None:
        self._store = store

    @route("GET", "/api/v1/analytics/pipeline", wire.PipelineRunList, query=PAGE)
    async def runs(self, request: Request) -> Response:
        """Runs, newest first."""
        query = parse_query(request.scope["query_string"])
        page = parse_page(query)
        rows = await self._store.list_runs(limit=page.limit, offset=page.offset)
        return json_answer(wire.PipelineRunList([_run(row) for row in rows], list(TABLES)))

    @route("GET", "/api/v1/analytics/runs", wire.JobRunList, query={"job": str, **PAGE})
    async def job_runs(self, request: Request) -> Response:
        """Return runs of all jobs, newest first."""
        query = parse_query(request.scope["query_string"])
        page = parse_page(query, default=50, limit_max=_PAGE)
        job = check_text("job", query.get("job")) or None
        rows = await self._store.list_job_runs(job, limit=page.limit, offset=page.offset)
        shows = may_read_messages(request)
        runs = [wire.JobRun(**_job_run(row, shows_errors=shows)) for row in rows]
        return json_answer(wire.JobRunList(runs, page))

    @route("GET", "/api/v1/analytics/runs/{run}", wire.JobRunDetail)
    async def job_run(self, request: Request) -> Response:
        """Return one run with its tables."""
        run_id = check_uuid("run", request.path_params["run"])
        row = await self._store.show_job_run(run_id)
        if row is None:
            raise NotFound(f"run {run_id} does not exist; GET /api/v1/analytics/runs lists them")
        tables = msgspec.json.decode(row["tables"], type=dict[str, wire.JobTable])
        return json_answer(wire.JobRunDetail(**_job_run(row, shows_errors=True), tables=tables))

    @route("GET", "/api/v1/analytics/archive", wire.ArchiveCoverage)
    async def archive(self, request: Request) -> Response:
        """Return how far queues are archived, and the days that this covers."""
        queues = await self._store.list_archived()
        days = await self._store.list_archived_days()
        return json_answer(
            wire.ArchiveCoverage(
                [
                    wire.ArchivedQueue(
                        queue=row["queue"],
                        lake=row["lake"],
                        location=row["location"],
                        waiting_since=iso_or_none(row["waiting_since"]),
                        updated_at=iso(row["updated_at"]),
                    )
                    for row in queues
                ],
                [wire.ArchivedDay(str(row["day"]), row["pushed"], row["archived"]) for row in days],
            )
        )

    @route(
        "GET",
        "/api/v1/analytics/pipeline/{table:name}",
        wire.PipelineTable,
        query={
            "run": str,
            "queue": str,
            "consumerGroup": str,
            "from": str,
            "to": str,
            **PAGE,
        },
    )
    async def table(self, request: Request) -> Response:
        """Return rows of one table of a run, by default of the newest."""
        name = request.path_params["table"]
        if name not in TABLES:
            raise NotFound(f"no table {quote(name)}; there are {', '.join(TABLES)}")
        query = parse_query(request.scope["query_string"])
        page = parse_page(query, default=_PAGE)
        which = ResultFilter(
            check_text("queue", query.get("queue")) or None,
            check_text("consumerGroup", query.get("consumerGroup")) or None,
            _time(query, "from"),
            _time(query, "to"),
        )
        asked = check_uuid("run", query["run"]) if query.get("run") else None
        run = await self._store.find_run(asked)
        if run is None:
            hint = "see the list of runs" if asked else "start queen pipeline analytics once"
            raise NotFound(f"there is no such run of the analytics job; {hint}")
        rows = await self._store.read(
            name, UUID(run["id"]), which, limit=page.limit, offset=page.offset
        )
        if not may_read_messages(request):
            rows = [{**row, "error": None} if "error" in row else row for row in rows]
        return json_answer(wire.PipelineTable(_run(run), name, [_row(row) for row in rows], page))


def _time(query: dict[str, str], field: str) -> datetime | None:
    return parse_time(field, query[field]) if query.get(field) else None


def _run(row: Row) -> wire.PipelineRun:
    return wire.PipelineRun(
        run=row["id"],
        scope=json.loads(row["scope"]),
        start=iso(row["from_time"]),
        end=iso(row["to_time"]),
        bucket_seconds=row["bucket_seconds"],
        messages=row["messages"],
        finished_at=iso(row["finished_at"]),
    )


def _job_run(row: Row, *, shows_errors: bool) -> dict[str, Any]:
    """Return a run. Errors of Spark quote the value that they are about."""
    return {
        "run": row["id"],
        "job": row["job"],
        "options": json.loads(row["options"]),
        "started_at": iso(row["started_at"]),
        "finished_at": iso_or_none(row["finished_at"]),
        "outcome": row["outcome"],
        "figures": json.loads(row["figures"]),
        "error": row["error"] if shows_errors else None,
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        _camel(name): iso(value) if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
