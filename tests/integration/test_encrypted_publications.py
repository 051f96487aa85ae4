"""queen.publish_staged and encrypted queues: marks stay, and rows in clear are refused."""

from __future__ import annotations

import asyncpg
import pytest

from tests.isolation.sessions import ensure
from tests.support.operations import enqueue, run_all
from tests.support.staging import Published, Row, publish, stage

QUERY = "stream:test"
_MARK = "UPDATE queen.spark_staging SET is_encrypted = true WHERE stage_id = $1"
_ENCRYPT = "UPDATE queen.queues SET encryption_enabled = true WHERE name = $1"
_STORED = """
    SELECT m.payload::text, m.is_encrypted FROM queen.messages m ORDER BY m.partition_id, m.seq
"""


async def test_encrypted_rows_stay_marked(database: asyncpg.Connection) -> None:
    sealed, clear = await stage(database, Row("secret", "x")), await stage(database, Row("open", 1))
    await database.execute(_MARK, sealed.id)
    await publish(database, QUERY, 0, sealed, clear)
    found = {tuple(row) for row in await database.fetch(_STORED)}
    assert found == {('"x"', True), ("1", False)}


async def test_encrypted_rows_stay_marked_behind_operations(database: asyncpg.Connection) -> None:
    (busy,) = await ensure(database, "secret", "busy")
    await enqueue(database, busy, "earlier")
    one = await stage(database, Row("secret", "x", "busy"))
    await database.execute(_MARK, one.id)
    assert await publish(database, QUERY, 0, one) == Published(False, 0, 0, 1)
    assert await run_all(database) == 2
    found = [tuple(row) for row in await database.fetch(_STORED)]
    assert found == [('"earlier"', False), ('"x"', True)]


async def test_rows_in_clear_are_refused_by_an_encrypted_queue(
    database: asyncpg.Connection,
) -> None:
    sealed, clear = await stage(database, Row("q", "x")), await stage(database, Row("q", 1))
    await database.execute(_MARK, sealed.id)
    await ensure(database, "q", "Default")
    await database.execute(_ENCRYPT, "q")
    with pytest.raises(asyncpg.PostgresError) as refused:
        await publish(database, QUERY, 0, sealed, clear)
    assert refused.value.sqlstate == "QN005"
    assert await database.fetch(_STORED) == []
    assert await publish(database, QUERY, 0, sealed) == Published(False, 1, 0, 0)
