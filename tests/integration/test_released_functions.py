"""Brokers of the last release can call the functions of today."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from queenmq.storage.schema.function_change import judge
from tests.support.released_functions import load, read_functions

RELEASED = load(Path(__file__).with_name("functions.released.json"))


async def test_no_function_breaks_the_calls_of_the_last_release(
    database: asyncpg.Connection,
) -> None:
    # Raises with the name of the function and what to do.
    for name, versions in (await read_functions(database)).items():
        for old in RELEASED.get(name, []):
            (new,) = versions
            judge(name, old, new)


async def test_no_parsed_body_holds_on_to_another_function(database: asyncpg.Connection) -> None:
    query = (
        "SELECT d.objid::regprocedure::text, d.refobjid::regprocedure::text"
        " FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass"
        " JOIN pg_proc r ON r.oid = d.refobjid AND d.refclassid = 'pg_proc'::regclass"
        " WHERE p.pronamespace = 'queen'::regnamespace"
        " AND r.pronamespace = 'queen'::regnamespace"
    )
    assert [tuple(row) for row in await database.fetch(query)] == []


@pytest.mark.parametrize("name", ["push_messages", "ack_messages", "pop_messages_batch"])
def test_the_record_of_the_release_has_the_hot_functions(name: str) -> None:
    (version,) = RELEASED[name]
    assert version.types
    assert "(" in version.result
