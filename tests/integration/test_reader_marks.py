"""queen.mark_position: a mark is known as long as the history that it was noted in."""

from __future__ import annotations

from typing import NamedTuple

import asyncpg

READER = "stream:test"
_CALL = (
    "SELECT database, is_known, mark, last_xid::text"
    " FROM queen.mark_position($1, $2, $3::text::xid8)"
)


class Noted(NamedTuple):
    """The result of the function."""

    database: str
    is_known: bool
    mark: int | None
    last_xid: str | None


async def note(
    session: asyncpg.Connection, last: int | None, xid: int | None = None, reader: str = READER
) -> Noted:
    row = await session.fetchrow(_CALL, reader, last, None if xid is None else str(xid))
    assert row is not None
    return Noted(*row)


async def test_a_mark_is_known_from_then_on(database: asyncpg.Connection) -> None:
    first = await note(database, None, 100)
    second = await note(database, first.mark, 200)
    assert first.is_known and second.is_known
    assert first.mark is not None and second.mark is not None
    assert second.mark >> 24 == (first.mark >> 24) + 1
    for mark in (first.mark, second.mark):
        assert await note(database, mark) == Noted(first.database, True, None, "200")
    assert not (await note(database, first.mark, reader="stream:other")).is_known


async def test_a_mark_of_another_history_is_not_known(database: asyncpg.Connection) -> None:
    first = await note(database, None, 100)
    assert first.mark is not None
    # As after a restore: the same number was given out again, and one that was not.
    for lost in (first.mark ^ 1, first.mark + (1 << 24)):
        assert await note(database, lost, 300) == Noted(first.database, False, None, "100")
    assert await database.fetchval("SELECT count(*) FROM queen.reader_marks") == 1


async def test_the_last_hundred_are_kept_and_older_ones_are_taken_on_trust(
    database: asyncpg.Connection,
) -> None:
    first = last = await note(database, None, 1)
    for xid in range(2, 111):
        last = await note(database, last.mark, xid)
    assert await database.fetchval("SELECT count(*) FROM queen.reader_marks") == 101
    assert (await note(database, first.mark)).is_known


async def test_a_server_that_only_reads_notes_nothing(database: asyncpg.Connection) -> None:
    async with database.transaction(readonly=True):
        found = await note(database, None, 100)
    assert found.is_known and found.mark is None


async def test_a_mark_is_on_disk_whatever_the_session_says(database: asyncpg.Connection) -> None:
    await database.execute("SET synchronous_commit = off")
    async with database.transaction():
        await note(database, None, 100)
        assert await database.fetchval("SHOW synchronous_commit") == "local"
    assert await database.fetchval("SHOW synchronous_commit") == "off"


async def test_a_queue_is_remembered_if_it_had_messages(database: asyncpg.Connection) -> None:
    await database.execute("SELECT queen.push('full', '1')")
    await database.execute("SELECT queen.push('empty', '1')")
    await database.execute("SELECT queen.clear_queue('empty', NULL)")
    for name in ("full", "empty"):
        await database.execute("SELECT queen.delete_queue($1)", name)
    rows = await database.fetch("SELECT name, last_xid < deleted_xid FROM queen.deleted_queues")
    assert [tuple(row) for row in rows] == [("full", True)]
    await database.execute(
        "UPDATE queen.deleted_queues SET deleted_at = now() - interval '91 days'"
    )
    await database.execute("SELECT queen.push('full', '1')")
    await database.execute("SELECT queen.delete_queue('full')")
    assert await database.fetchval("SELECT count(*) FROM queen.deleted_queues") == 1
