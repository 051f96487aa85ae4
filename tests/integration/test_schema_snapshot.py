"""The committed picture of the schema is what a fresh migration gives."""

from __future__ import annotations

from pathlib import Path

import asyncpg

from tests.support.schema_snapshot import COMMAND, take_snapshot

SNAPSHOT = Path(__file__).with_name("schema.snapshot.txt")


async def test_snapshot_is_up_to_date(database: asyncpg.Connection) -> None:
    found = await take_snapshot(database)
    assert found == SNAPSHOT.read_text(), (
        f"the schema has changed; look it over, then run: {COMMAND}"
    )


async def test_snapshot_sees_every_change(database: asyncpg.Connection) -> None:
    before = await take_snapshot(database)
    changes = [
        "ALTER TABLE queen.queues ADD COLUMN extra integer",
        "ALTER TABLE queen.queues ALTER COLUMN extra SET DEFAULT 3",
        "ALTER TABLE queen.queues ALTER COLUMN extra SET NOT NULL",
        "ALTER TABLE queen.queues ADD CONSTRAINT extra_check CHECK (extra > 0)",
        "CREATE INDEX extra_idx ON queen.queues (extra)",
        "ALTER TABLE queen.queues SET (fillfactor = 90)",
        "CREATE VIEW queen.extra AS SELECT name FROM queen.queues",
        "CREATE FUNCTION queen.extra() RETURNS integer LANGUAGE sql RETURN 1",
        "ALTER FUNCTION queen.extra() STABLE",
    ]
    for change in changes:
        await database.execute(change)
        after = await take_snapshot(database)
        assert after != before, change
        before = after
