"""queen.mark_archived: a mark never covers a message that is not in the lake."""

from __future__ import annotations

from uuid import UUID, uuid4

import asyncpg

from tests.isolation.sessions import Connect, ensure, push_all, start_blocked

LAKE, OTHER = uuid4(), uuid4()
_MARK = "SELECT queen.mark_archived($1, $2, $3, $4)"
_DELETE = "SELECT queen.delete_queue($1)"


async def _mark(
    session: asyncpg.Connection, place: UUID, before: int, *, lake: UUID = LAKE, takes: bool = False
) -> int:
    moved: int = await session.fetchval(_MARK, lake, [place], before, takes)
    return moved


async def _marked(session: asyncpg.Connection) -> list[tuple[UUID, int]]:
    rows = await session.fetch("SELECT lake, archived_seq FROM queen.archive_marks")
    return [(row[0], row[1]) for row in rows]


async def _xids(session: asyncpg.Connection) -> list[int]:
    """The transactions of the messages, in the order of their numbers in the partition."""
    rows = await session.fetch("SELECT xid::text::bigint FROM queen.messages ORDER BY seq")
    return [row[0] for row in rows]


async def test_a_mark_goes_up_to_the_transactions_that_are_archived(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, "q")
    for number in range(3):
        await push_all(database, place, number)
    xids = await _xids(database)
    for archived, xid in enumerate([*xids, xids[-1] + 1]):
        await _mark(database, place, xid)
        assert await _marked(database) == [(LAKE, archived)]
    assert await _mark(database, place, xids[0]) == 0
    assert await _marked(database) == [(LAKE, 3)], "it does not go back"


async def test_a_mark_stops_before_a_lower_message_of_a_later_transaction(
    database: asyncpg.Connection, connect: Connect
) -> None:
    (place,) = await ensure(database, "q")
    early = await connect()
    opened = early.transaction()
    await opened.start()
    await early.execute("SELECT pg_current_xact_id()")
    await push_all(database, place, "first")
    await push_all(early, place, "second")
    await opened.commit()
    first, second = await _xids(database)
    assert first > second
    await _mark(database, place, second + 1)
    assert await _marked(database) == [(LAKE, 0)], "the second is archived, the first is not"
    await _mark(database, place, first + 1)
    assert await _marked(database) == [(LAKE, 2)]


async def test_messages_that_were_removed_do_not_hold_a_mark_up(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, "q")
    await push_all(database, place, 1, 2, 3)
    await database.execute("DELETE FROM queen.messages WHERE seq < 3")
    (xid,) = await _xids(database)
    await _mark(database, place, xid + 1)
    assert await _marked(database) == [(LAKE, 3)]
    await database.execute("DELETE FROM queen.messages")
    assert await _mark(database, place, xid + 2) == 0


async def test_the_first_lake_keeps_a_mark_until_another_takes_it(
    database: asyncpg.Connection,
) -> None:
    (place,) = await ensure(database, "q")
    await push_all(database, place, 1)
    await push_all(database, place, 2)
    first, second = await _xids(database)
    await _mark(database, place, second + 1)
    assert await _mark(database, place, second + 1, lake=OTHER) == 0
    assert await _marked(database) == [(LAKE, 2)]
    await _mark(database, place, first + 1, lake=OTHER, takes=True)
    assert await _marked(database) == [(OTHER, 1)], "as far as that lake is"


async def test_a_queue_that_is_being_deleted_is_waited_for_and_not_marked(
    database: asyncpg.Connection, connect: Connect
) -> None:
    remover, marker = await connect(), await connect()
    (place,) = await ensure(database, "q")
    await push_all(database, place, 1)
    (xid,) = await _xids(database)
    await _mark(database, place, xid + 1)
    await push_all(database, place, 2)
    opened = remover.transaction()
    await opened.start()
    await remover.execute(_DELETE, "q")
    waiting = await start_blocked(database, marker, _mark(marker, place, xid + 100))
    await opened.commit()
    assert await waiting == 0
    assert await _marked(database) == []


async def test_a_delete_waits_for_marks_and_takes_them_along(
    database: asyncpg.Connection, connect: Connect
) -> None:
    remover, marker = await connect(), await connect()
    (place,) = await ensure(database, "q")
    await push_all(database, place, 1)
    (xid,) = await _xids(database)
    opened = marker.transaction()
    await opened.start()
    assert await _mark(marker, place, xid + 1) == 1
    waiting = await start_blocked(database, remover, remover.fetchval(_DELETE, "q"))
    await opened.commit()
    assert await waiting is True
    assert await _marked(database) == []
