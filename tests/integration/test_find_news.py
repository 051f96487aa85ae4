"""find_news: one look at what is new in a queue, for all idle pops there."""

from __future__ import annotations

import asyncpg

from queenmq.storage.sql_files import load_queries
from tests.isolation.sessions import Connect, ensure, push_all
from tests.support.broker import unique
from tests.support.look_ups import Ask, look_at

_SQL = load_queries("calls")["find_news"]


async def _news(session: asyncpg.Connection, *asks: tuple[str, str]) -> list[asyncpg.Record]:
    return await session.fetch(_SQL, [queue for queue, _ in asks], [since for _, since in asks])


async def _horizon(session: asyncpg.Connection, queue: str) -> str:
    return (await look_at(session, Ask(queue))).horizon


async def test_partitions_with_new_messages_are_named(database: asyncpg.Connection) -> None:
    queue, other = unique(), unique()
    old, new = await ensure(database, queue, "old", "new")
    await ensure(database, other)
    await push_all(database, old, 1)
    horizon = await _horizon(database, queue)
    await push_all(database, new, 1, 2)
    first, second = await _news(database, (queue, horizon), (other, horizon))
    assert (first["is_changed"], first["partition_names"]) == (False, ["new"])
    assert (second["is_changed"], second["partition_names"]) == (False, [])
    (again,) = await _news(database, (queue, first["horizon"]))
    assert again["partition_names"] == []


async def test_message_of_a_transaction_that_was_open_is_news_when_it_commits(
    database: asyncpg.Connection, connect: Connect
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    slow = await connect()
    async with slow.transaction():
        await push_all(slow, place, 1)
        horizon = await _horizon(database, queue)
        for _ in range(2):
            (news,) = await _news(database, (queue, horizon))
            assert news["partition_names"] == []
            horizon = news["horizon"]
    (news,) = await _news(database, (queue, horizon))
    assert news["partition_names"] == ["Default"]


async def test_partition_and_queue_that_were_made_since_are_news(
    database: asyncpg.Connection,
) -> None:
    queue, later = unique(), unique()
    await ensure(database, queue)
    horizon = await _horizon(database, queue)
    assert [row["partition_names"] for row in await _news(database, (later, horizon))] == [[]]
    for name in (queue, later):
        (place,) = await ensure(database, name, "new")
        await push_all(database, place, 1)
    rows = await _news(database, (queue, horizon), (later, horizon))
    assert [row["partition_names"] for row in rows] == [["new"], ["new"]]


async def test_cursors_that_were_moved_back_are_news_of_the_whole_queue(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    await push_all(database, place, 1)
    horizon = await _horizon(database, queue)
    await database.execute("SELECT queen.delete_group('g', $1, false)", queue)
    (news,) = await _news(database, (queue, horizon))
    assert news["is_changed"]


async def test_many_new_messages_are_news_of_the_whole_queue(database: asyncpg.Connection) -> None:
    queue = unique()
    (place,) = await ensure(database, queue)
    horizon = await _horizon(database, queue)
    await push_all(database, place, *range(5_000))
    (news,) = await _news(database, (queue, horizon))
    assert news["is_changed"]
