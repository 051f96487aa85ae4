"""`queen pipeline runs`: what jobs did, without Spark."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from tests.support.broker import unique
from tests.support.command_line import Cli

_TABLES = {
    "first findings": {
        "columns": ["check", "seq", "detail"],
        "rows": [["density", 7, "message 7 is missing"]],
        "total": 1,
    }
}


class Runs:
    """A run that found something, and one that failed, of a job that no other test has."""

    def __init__(self, url: str) -> None:
        self.job = unique()
        self.found, self.failed = asyncio.run(self._make(url))

    async def _make(self, url: str) -> tuple[str, str]:
        session = await asyncpg.connect(url)
        try:
            start = "SELECT queen.start_pipeline_run($1, $2)"
            note = "SELECT queen.note_pipeline_run($1, $2, $3, $4, $5)"
            runs: list[Any] = [
                await session.fetchval(start, self.job, '{"lake": "./lake"}') for _ in range(2)
            ]
            figures = json.dumps({"queues": 3, "findings": 1, "horizon": "12"})
            await session.execute(note, runs[0], "found", figures, json.dumps(_TABLES), None)
            await session.execute(note, runs[1], "failed", "{}", "{}", "the lake is gone")
        finally:
            await session.close()
        return str(runs[0]), str(runs[1])


@pytest.fixture
def runs(shared_database_url: str) -> Runs:
    return Runs(shared_database_url)


def test_runs_are_listed_newest_first(cli: Cli, runs: Runs) -> None:
    rows = cli("pipeline", "runs", "--job", runs.job, "-o", "json").value
    assert [row["run"] for row in rows] == [runs.failed, runs.found]
    text = cli.ok("pipeline", "runs", "--job", runs.job)
    assert "failed" in text and "the lake is gone" in text
    assert "queues 3, findings 1" in text
    assert len(cli("pipeline", "runs", "--job", runs.job, "--limit", "1", "-o", "json").value) == 1


def test_a_run_is_shown_with_what_it_found(cli: Cli, runs: Runs) -> None:
    text = cli.ok("pipeline", "runs", runs.found)
    assert "./lake" in text and "message 7 is missing" in text
    shown = cli("pipeline", "runs", runs.found, "-o", "json").value
    assert shown["tables"]["first findings"]["rows"] == [["density", 7, "message 7 is missing"]]
    ended = cli("pipeline", "runs", "00000000-0000-0000-0000-000000000000")
    assert ended.code == 3 and "does not exist" in ended.err
