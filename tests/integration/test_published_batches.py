"""queen.publish_staged distinguishes a repeated batch from another one."""

from __future__ import annotations

import asyncpg
import pytest

from tests.support.staging import Published, Row, publish, stage, stored

QUERY = "stream:test"


async def test_a_batch_that_holds_something_else_is_refused(database: asyncpg.Connection) -> None:
    await publish(database, QUERY, 7, await stage(database, Row("q", 1)), digest=11)
    same = await stage(database, Row("q", 1))
    assert (await publish(database, QUERY, 7, same, digest=11)).is_repeat
    for rows, digest in (((Row("q", 2),), 12), ((Row("q", 1), Row("q", 2)), 11)):
        other = await stage(database, *rows)
        with pytest.raises(asyncpg.PostgresError, match="batch 7 was published before") as error:
            await publish(database, QUERY, 7, other, digest=digest)
        assert error.value.sqlstate == "QN021"
    assert await stored(database, "q") == [1]


@pytest.mark.parametrize(("before", "now"), [(None, 11), (11, None)])
async def test_without_a_digest_nothing_is_compared(
    database: asyncpg.Connection, before: int | None, now: int | None
) -> None:
    await publish(database, QUERY, 7, await stage(database, Row("q", 1)), digest=before)
    other = await stage(database, Row("q", 1), Row("q", 2))
    assert (await publish(database, QUERY, 7, other, digest=now)).is_repeat


async def test_a_batch_older_than_the_notes_is_refused(database: asyncpg.Connection) -> None:
    for batch in (0, 1, 101):
        await publish(database, QUERY, batch, await stage(database, Row("q", batch)), digest=batch)
    # The note of batch 0 is gone: it may be one that was published.
    with pytest.raises(asyncpg.PostgresError, match="100 batches older") as error:
        await publish(database, QUERY, 0, await stage(database, Row("q", 0)), digest=0)
    assert error.value.sqlstate == "QN021"
    # This one was not: it had no rows then.
    one = await stage(database, Row("q", 2))
    assert await publish(database, QUERY, 2, one, digest=2) == Published(False, 1, 0, 0)
