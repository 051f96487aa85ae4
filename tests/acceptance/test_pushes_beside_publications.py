"""A publication of Spark takes long, and no push waits for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.support.broker import SOON_S, Api, unique
from tests.support.staging import Row, publish, stage, stored
from tests.support.waiting import wait_until_async


@pytest.fixture
async def session(shared_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(shared_database_url)
    yield connection
    await connection.close()


async def _push(api: Api, queue: str, payload: Any, *partitions: str) -> tuple[int, list[str]]:
    """The status of the answer, and that of each item."""
    items = [{"queue": queue, "partition": name, "payload": payload} for name in partitions]
    response = await api.http.post("/api/v1/push", json={"items": items})
    answers = response.json()
    return response.status_code, [one.get("reason", one["status"]) for one in answers]


async def test_pushes_are_answered_while_a_batch_is_published_and_come_after_it(
    api: Api, session: asyncpg.Connection, shared_database_url: str
) -> None:
    queue = unique()
    publisher = await asyncpg.connect(shared_database_url)
    await _push(api, queue, "first", "a", "b", "c")
    one = await stage(session, *(Row(queue, ["batch", n], name) for n in range(3) for name in "ab"))
    transaction = publisher.transaction()
    await transaction.start()
    await publish(publisher, f"stream:{queue}", 0, one)
    # Each of these is answered although the transaction stays open.
    for number in range(3):
        assert await _push(api, queue, ["push", number], "a") == (202, ["maintaining_order"])
    both = ["maintaining_order", "queued"]
    assert await _push(api, queue, ["push", 3], "b", "c") == (202, both)
    assert await _push(api, queue, ["push", 4], "c") == (201, ["queued"])
    assert await stored(session, queue, "a") == ["first"], "nothing of the batch is visible"
    await transaction.commit()
    await publisher.close()

    batch = [["batch", n] for n in range(3)]
    expected = {
        "a": ["first", *batch, *(["push", n] for n in range(3))],
        "b": ["first", *batch, ["push", 3]],
        "c": ["first", ["push", 3], ["push", 4]],
    }

    async def is_stored() -> bool:
        return {name: await stored(session, queue, name) for name in "abc"} == expected

    await wait_until_async(
        is_stored, timeout_s=SOON_S, what="the queued pushes to be stored, in order"
    )


async def test_pushes_go_on_when_the_publication_is_given_up(
    api: Api, session: asyncpg.Connection, shared_database_url: str
) -> None:
    queue = unique()
    publisher = await asyncpg.connect(shared_database_url)
    await _push(api, queue, "first", "a")
    transaction = publisher.transaction()
    await transaction.start()
    one = await stage(session, Row(queue, "batch", "a"))
    await publish(publisher, f"stream:{queue}", 0, one)
    assert (await _push(api, queue, "second", "a"))[0] == 202
    await transaction.rollback()
    await publisher.close()

    async def is_stored() -> bool:
        return await stored(session, queue, "a") == ["first", "second"]

    await wait_until_async(is_stored, timeout_s=SOON_S, what="the queued push to be stored")
    assert (await publish(session, f"stream:{queue}", 0, one)).stored == 1
