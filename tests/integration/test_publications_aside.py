"""The partitions of a Spark publication can be found, and its disk space comes back."""

from __future__ import annotations

from uuid import uuid4

import asyncpg

from queenmq.settings import Settings
from queenmq.storage.connection.database import Database
from queenmq.storage.stores.admin import AdminStore
from tests.isolation.sessions import Connect, ensure
from tests.support.staging import Row, publish, stage

QUERY = "stream:test"
_MEGABYTE = "x" * 1_000_000


async def test_partitions_of_a_publication_are_found_and_nothing_is_held_for_that(
    database: asyncpg.Connection, connect: Connect
) -> None:
    held, free, other = (await ensure(database, "q", "a", "b", "c"))[:3]
    (elsewhere,) = await ensure(database, "elsewhere", "a")
    publisher, holder, third = await connect(), await connect(), await connect()
    query = "SELECT queen.find_publishing($1)"
    hold = "SELECT FROM queen.partition_lookup WHERE partition_id = $1 FOR NO KEY UPDATE"
    every = [held, free, other, elsewhere]
    async with holder.transaction():
        await holder.execute(hold, elsewhere)
        assert await database.fetchval(query, every) == [], "held, but by no publication"
        async with publisher.transaction():
            await publish(publisher, QUERY, 0, await stage(database, Row("q", 1, "a")))
            async with database.transaction():
                assert await database.fetchval(query, every) == [held]
                async with third.transaction():
                    await third.execute(f"{hold} NOWAIT", free)
                    await third.execute(f"{hold} NOWAIT", other)
            # The key names the queue, and who holds a row of it meanwhile waits as well.
            async with third.transaction():
                await third.execute(hold, free)
                assert sorted(await database.fetchval(query, every)) == sorted([held, free])
    assert await database.fetchval(query, every) == []


async def _staging_bytes(session: asyncpg.Connection) -> int:
    size: int = await session.fetchval("SELECT pg_total_relation_size('queen.spark_staging')")
    return size


async def test_staging_shrinks_when_a_large_batch_is_published(
    database: asyncpg.Connection, connect: Connect
) -> None:
    large = [Row("q", _MEGABYTE + str(n), f"p{n}") for n in range(70)]
    one = await stage(database, *large)
    # Of a task that was killed, and of one that is still at work.
    waiting = await stage(database, Row("other", [_MEGABYTE], "a", "tx", uuid4()), Row("other", 2))
    before = await database.fetch("SELECT * FROM queen.spark_staging WHERE queue = 'other'")
    shrink = "SELECT queen.shrink_staging()"
    assert not await database.fetchval(shrink), "much is staged"
    await publish(database, QUERY, 0, one)
    full = await _staging_bytes(database)
    assert full > 70_000_000
    user = await connect()
    async with user.transaction():
        await user.execute("SELECT FROM queen.spark_staging")
        assert not await database.fetchval(shrink), "it waits for nobody"
    assert await database.fetchval(shrink)
    assert await _staging_bytes(database) < full / 10
    after = await database.fetch("SELECT * FROM queen.spark_staging")
    assert sorted(map(tuple, after)) == sorted(map(tuple, before))
    assert (await publish(database, QUERY, 1, waiting)).stored == 2
    assert not await database.fetchval(shrink), "it is small"


async def test_the_sweep_gives_the_space_of_what_it_removed_back(
    database: asyncpg.Connection, database_url: str
) -> None:
    await stage(database, *(Row("q", _MEGABYTE, f"p{n}") for n in range(70)))
    pool = Database(database_url, Settings())
    await pool.open()
    try:
        await AdminStore(pool).sweep_staged(older_than_s=-1, limit=5_000)
    finally:
        await pool.close()
    assert await _staging_bytes(database) < 7_000_000
