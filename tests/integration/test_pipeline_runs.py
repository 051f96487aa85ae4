"""Runs of jobs in the database: who may write them, their bounds, and how they end once."""

from __future__ import annotations

import json
from typing import Any

import asyncpg

from queenmq.storage.schema.roles import make_roles
from tests.support.shared_postgres import SharedPostgres

START = "SELECT queen.start_pipeline_run($1, $2)"
NOTE = "SELECT queen.note_pipeline_run($1, $2, $3, $4, $5)"


async def start(session: asyncpg.Connection, job: str = "archive", **options: Any) -> Any:
    return await session.fetchval(START, job, json.dumps(options))


async def note(session: asyncpg.Connection, run: Any, outcome: str, **said: Any) -> Any:
    figures, tables = (json.dumps(said.get(name, {})) for name in ("figures", "tables"))
    return await session.fetchval(NOTE, run, outcome, figures, tables, said.get("error"))


async def test_a_run_ends_once(database: asyncpg.Connection) -> None:
    run = await start(database, queues="orders")
    assert await note(database, run, "running")
    assert await note(database, run, "found", figures={"findings": 1}, error="x" * 3_000)
    assert not await note(database, run, "done"), "it has ended"
    row = await database.fetchrow("SELECT * FROM queen.pipeline_runs")
    assert (row["id"], row["job"], row["outcome"]) == (run, "archive", "found")
    assert json.loads(row["options"]) == {"queues": "orders"}
    assert json.loads(row["figures"]) == {"findings": 1}
    assert len(row["error"]) == 2_000
    assert row["started_at"] <= row["seen_at"] <= row["finished_at"]


async def test_what_is_too_large_is_left_out(database: asyncpg.Connection) -> None:
    run = await start(database, text="x" * 20_000)
    await note(database, run, "done", figures={"text": "x" * 20_000}, tables={"t": "x" * 300_000})
    row = await database.fetchrow("SELECT * FROM queen.pipeline_runs")
    assert [json.loads(row[name]) for name in ("options", "figures", "tables")] == [{}, {}, {}]


async def test_the_oldest_runs_of_a_job_are_forgotten(database: asyncpg.Connection) -> None:
    audit = await start(database, "audit")
    await database.execute(
        "SELECT queen.start_pipeline_run('archive', '{}') FROM generate_series(1, 205)"
    )
    count = "SELECT count(*) FROM queen.pipeline_runs WHERE job = $1"
    assert await database.fetchval(count, "archive") == 200
    assert await database.fetchval(count, "audit") == 1, "a job that runs often pushes out no other"
    assert await note(database, audit, "done")


async def test_the_reader_may_write_runs_and_no_table(
    superuser_url: str, database: asyncpg.Connection, postgres: SharedPostgres
) -> None:
    names = await make_roles(superuser_url, "runs_test_")
    session = await asyncpg.connect(superuser_url)
    try:
        await session.execute("SET ROLE runs_test_reader")
        run = await start(session)
        assert await note(session, run, "done")
        for statement in ("SELECT FROM queen.pipeline_runs", "DELETE FROM queen.pipeline_runs"):
            try:
                await session.execute(statement)
            except asyncpg.InsufficientPrivilegeError:
                continue
            raise AssertionError(f"{statement} is allowed")
    finally:
        await session.execute("RESET ROLE")
        for name in names:
            await session.execute(f"REASSIGN OWNED BY {name} TO CURRENT_USER; DROP OWNED BY {name}")
            await session.execute(f"DROP ROLE {name}")
        await session.close()
