"""The API and the client return the results of the analytics job."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from queenmq import Queen, ResourceNotFound
from tests.support.broker import Api, BrokerProcess

RUN = "5f0c5d0e-2f44-4c5a-9d0b-3b1f6f3c9a01"
PATH = "/api/v1/analytics/pipeline"


def run(id: str = RUN, **values: Any) -> dict[str, Any]:
    return {
        "id": id,
        "scope": {"queue": "orders"},
        "from_time": "2026-01-01T00:00:00Z",
        "to_time": "2026-01-01T01:00:00Z",
        "bucket_seconds": 300,
        "messages": 7,
        **values,
    }


def line(queue: str, minute: int, group: str | None = None, **values: Any) -> dict[str, Any]:
    return {
        "run_id": RUN,
        "queue": queue,
        "consumer_group": group,
        "bucket_at": f"2026-01-01T00:{minute:02}:00Z",
        **values,
    }


async def publish(
    session: asyncpg.Connection, about: dict[str, Any], *, keep: int = 100, **tables: Any
) -> int:
    stored: int = await session.fetchval(
        "SELECT queen.publish_analytics($1, $2, $3)", json.dumps(about), json.dumps(tables), keep
    )
    return stored


@pytest.fixture
async def api(start_broker: Callable[..., BrokerProcess]) -> AsyncIterator[Api]:
    client = Api(start_broker().url)
    yield client
    await client.close()


async def get(api: Api, path: str = "", status: int = 200, **query: Any) -> Any:
    response = await api.http.get(PATH + path, params=query)
    assert response.status_code == status, response.text
    return response.json()


async def test_runs_and_their_tables_are_served(api: Api, database: asyncpg.Connection) -> None:
    assert (await get(api))["runs"] == []
    assert "queen pipeline analytics" in (await get(api, "/timeline", 404))["error"]
    lines = [
        line("orders", 0, pushed=4, bytes=400),
        line("orders", 0, "g", consumed=3, backlog=1, latency_p50_ms=2.5),
        line("orders", 5, pushed=1, bytes=9),
        line("other", 5, pushed=2, bytes=2),
    ]
    queue = {
        "run_id": RUN,
        "queue": "orders",
        "keeps_history": True,
        "partitions": 3,
        "pushed": 5,
        "bytes": 409,
        "max_by_mean": 2.5,
    }
    assert await publish(database, run(), timeline=lines, queues=[queue]) == 5
    (listed,) = (await get(api))["runs"]
    assert listed.pop("finishedAt")
    assert listed == {
        "run": RUN,
        "scope": {"queue": "orders"},
        "from": "2026-01-01T00:00:00.000Z",
        "to": "2026-01-01T01:00:00.000Z",
        "bucketSeconds": 300,
        "messages": 7,
    }
    answer = await get(api, "/timeline", queue="orders")
    assert answer["table"] == "timeline" and answer["run"]["run"] == RUN
    assert [row["pushed"] for row in answer["rows"]] == [4, None, 1]
    assert answer["rows"][1]["latencyP50Ms"] == 2.5
    assert answer["rows"][1]["bucketAt"] == "2026-01-01T00:00:00.000Z"
    (row,) = (await get(api, "/timeline", consumerGroup="g"))["rows"]
    assert (row["consumed"], row["backlog"]) == (3, 1)
    late = await get(api, "/timeline", **{"from": "2026-01-01T00:05:00Z", "limit": 1})
    assert [row["queue"] for row in late["rows"]] == ["orders"]
    (row,) = (await get(api, "/queues", run=RUN))["rows"]
    assert (row["maxByMean"], row["gini"]) == (2.5, None)
    for name in (await get(api))["tables"]:
        await get(api, f"/{name}", queue="orders")


async def test_the_same_run_replaces_and_old_runs_are_forgotten(
    database: asyncpg.Connection,
) -> None:
    rows = [line("orders", 0, pushed=1), line("orders", 5, pushed=1)]
    await publish(database, run(), timeline=rows)
    await publish(database, run(messages=8), timeline=rows[:1])
    assert await database.fetchval("SELECT count(*) FROM queen.analytics_timeline") == 1
    assert await database.fetchval("SELECT messages FROM queen.analytics_runs") == 8
    for _ in range(3):
        await publish(database, run(str(uuid4())), keep=2)
    assert await database.fetchval("SELECT count(*) FROM queen.analytics_runs") == 2
    assert await database.fetchval("SELECT count(*) FROM queen.analytics_timeline") == 0


@pytest.mark.parametrize(
    ("path", "query", "status", "word"),
    [
        ("/colours", {}, 404, "timeline"),
        ("/timeline", {"run": "x"}, 400, "not a UUID"),
        ("/timeline", {"run": RUN}, 404, "see the list of runs"),
        ("/timeline", {"from": "soon"}, 400, "from 'soon' is not a time"),
        ("/timeline", {"limit": "10001"}, 400, "limit 10001"),
        ("/timeline", {"queue": "a\0"}, 400, "queue"),
    ],
)
async def test_bad_requests_are_told_what_is_wrong(
    api: Api, path: str, query: dict[str, str], status: int, word: str
) -> None:
    assert word in (await get(api, path, status, **query))["error"]


async def test_the_client_asks_for_them(
    start_broker: Callable[..., BrokerProcess], database: asyncpg.Connection
) -> None:
    await publish(database, run(), timeline=[line("orders", 0, pushed=4)])
    async with Queen(start_broker().url) as queen:
        assert len((await queen.pipeline.list_runs(limit=5))["runs"]) == 1
        answer = await queen.pipeline.get_table("timeline", queue="orders")
        assert answer["rows"][0]["pushed"] == 4


async def _push_on(database: asyncpg.Connection, queue: str, day: str, messages: int) -> None:
    """Write a line of history: what was pushed in an hour of this day."""
    columns = await database.fetch(
        "SELECT attname, format_type(atttypid, NULL) LIKE 'timestamp%' AS is_time"
        " FROM pg_attribute WHERE attrelid = 'queen.history_queues'::regclass AND attnum > 0"
    )
    row: dict[str, Any] = {one["attname"]: 0 for one in columns}
    row |= {"step_minutes": 60, "at": f"{day}T10:00:00Z", "queue": queue, "worker": "w"}
    await database.execute(
        "INSERT INTO queen.history_queues"
        " SELECT * FROM json_populate_record(NULL::queen.history_queues, $1)",
        json.dumps(row | {"push_messages": messages}),
    )


async def test_days_are_archived_once_the_archive_has_passed_them(
    api: Api, database: asyncpg.Connection
) -> None:
    path = "/api/v1/analytics/archive"
    assert (await api.http.get(path)).json()["queues"] == []
    for queue in ("done", "late", "never"):
        await api.push(queue, 1)
        await _push_on(database, queue, "2025-01-01", 10)
    await _push_on(database, "done", "2025-01-02", 5)
    # Hours count up to the last that was added up, which a worker says.
    await database.execute(
        "INSERT INTO queen.history_workers"
        " SELECT (json_populate_record(NULL::queen.history_workers, (SELECT"
        " json_object_agg(a.attname, CASE a.attname WHEN 'at' THEN '2025-01-03T00:00:00Z'"
        " WHEN 'step_minutes' THEN '60' ELSE '0' END) FROM pg_attribute a"
        " WHERE a.attrelid = 'queen.history_workers'::regclass AND a.attnum > 0))).*"
    )
    # `late` has a message that is not in the lake and was pushed in the middle of the first day.
    await database.execute(
        "UPDATE queen.messages m SET created_at = '2025-01-01T12:00:00Z'"
        " FROM queen.queues q WHERE q.id = m.queue_id AND q.name = 'late'"
    )
    await database.execute(
        "INSERT INTO queen.archive_positions (lake, queue_id, xid, location)"
        " SELECT $1, q.id, CASE q.name WHEN 'late' THEN '3' ELSE pg_current_xact_id() END, '/lake'"
        " FROM queen.queues q WHERE q.name <> 'never'",
        uuid4(),
    )
    answer = (await api.http.get(path)).json()
    queues = {one["queue"]: one["waitingSince"] for one in answer["queues"]}
    assert queues == {"done": None, "late": "2025-01-01T12:00:00.000Z"}
    days = {one["day"]: (one["pushed"], one["archived"]) for one in answer["days"]}
    assert days["2025-01-01"] == (30, 10) and days["2025-01-02"] == (5, 5)


async def test_runs_of_jobs_are_served_with_their_tables(
    start_broker: Callable[..., BrokerProcess], database: asyncpg.Connection
) -> None:
    start, note = (
        "SELECT queen.start_pipeline_run($1, $2)",
        "SELECT queen.note_pipeline_run($1, $2, $3, $4, $5)",
    )
    killed = await database.fetchval(start, "stream", "{}")
    await database.execute(
        "UPDATE queen.pipeline_runs SET seen_at = now() - interval '6 minutes' WHERE id = $1",
        killed,
    )
    audit = await database.fetchval(start, "audit", '{"lake": "./lake"}')
    table = {"columns": ["check", "findings"], "rows": [["density", 1]], "total": 1}
    tables = json.dumps({"checks": table})
    await database.execute(note, audit, "found", '{"findings": 1}', tables, None)
    async with Queen(start_broker().url) as queen:
        runs = (await queen.pipeline.list_job_runs()).runs
        assert [(one.job, one.outcome) for one in runs] == [("audit", "found"), ("stream", "lost")]
        assert (runs[1].finished_at, runs[1].error) == (None, None)
        (one,) = (await queen.pipeline.list_job_runs(job="audit", limit=5)).runs
        shown = await queen.pipeline.get_job_run(one.run)
        assert shown.options == {"lake": "./lake"} and shown.figures == {"findings": 1}
        assert shown.tables["checks"].rows == [["density", 1]]
        with pytest.raises(ResourceNotFound, match="does not exist"):
            await queen.pipeline.get_job_run(str(uuid4()))
