"""The numbers of partitions, which keep message ids apart: upgrades, repairs, foreign inserts."""

from __future__ import annotations

from uuid import UUID

import asyncpg
import pytest

from queenmq.storage.schema import migrator
from queenmq.storage.schema.migrator import migrate
from queenmq.storage.sql_files import SqlFile, load_folder
from tests.isolation.sessions import Ack, ack, ensure, pop_one, push_all
from tests.support.plain_sql import insert

_NUMBER = "SELECT number FROM queen.partition_lookup WHERE partition_id = $1"
_LAST = "SELECT last_value FROM queen.partition_numbers"


def _older_files(folder: str) -> list[SqlFile]:
    """The tables of the release before the numbers."""
    return [file for file in load_folder(folder) if folder == "migrations" and file.name < "0018"]


@pytest.fixture
async def older_url(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as patch:
        patch.setattr(migrator, "load_folder", _older_files)
        await migrate(empty_database_url)
    return empty_database_url


async def test_an_upgrade_numbers_what_is_there_and_keeps_old_ids(older_url: str) -> None:
    session = await asyncpg.connect(older_url)
    try:
        places = await _fill_older(session)
        await migrate(older_url)
        numbers = {await session.fetchval(_NUMBER, place) for place in places}
        assert len(numbers) == len(places)
        assert await session.fetchval(_LAST) == max(numbers)
        popped = await pop_one(session, places[0])
        (message,) = popped.messages
        assert UUID(message["id"]) == _older_id(places[0])
        (result,) = await ack(session, Ack(places[0], message["transactionId"], popped.lease_id))
        assert result["success"]
        pushed = await push_all(session, places[0], 2)
        assert pushed.outcomes == "q"
    finally:
        await session.close()


def _older_id(place: UUID) -> UUID:
    return UUID(f"0190a0b0c0d07{place.hex[:3]}8{place.hex[3:8]}{1:010x}")


async def _fill_older(session: asyncpg.Connection) -> list[UUID]:
    """Three partitions with a message each, as a push of that release left them."""
    queue_id = await session.fetchval(
        "INSERT INTO queen.queues (name) VALUES ('orders') RETURNING id"
    )
    places = [
        await session.fetchval(
            "INSERT INTO queen.partitions (queue_id, name) VALUES ($1, $2) RETURNING id",
            queue_id,
            name,
        )
        for name in "abc"
    ]
    for place in places:
        await session.execute(
            "INSERT INTO queen.partition_lookup (partition_id, queue_id, last_seq, last_message_id,"
            " last_message_created_at) VALUES ($1, $2, 1, $3, now())",
            place, queue_id, _older_id(place),
        )  # fmt: skip
        await session.execute(
            "INSERT INTO queen.messages (partition_id, seq, id, queue_id, created_at, payload)"
            " VALUES ($1, 1, $2, $3, now(), '1')",
            place, _older_id(place), queue_id,
        )  # fmt: skip
    return places


async def test_inserts_by_sql_use_up_no_numbers(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, "orders")
    before = await database.fetchval(_NUMBER, place)
    for seq in (1, 2, 3):
        await insert(database, place, seq)
    await database.fetch("SELECT queen.resync_lookup($1, 1000)", [place])
    assert await database.fetchval(_NUMBER, place) == before
    assert await database.fetchval(_LAST) == before


@pytest.mark.parametrize("way", ["insert", "resync"])
async def test_a_lost_row_comes_back_with_a_new_number(
    database: asyncpg.Connection, way: str
) -> None:
    (place,) = await ensure(database, "orders")
    before = await database.fetchval(_NUMBER, place)
    await database.execute("DELETE FROM queen.partition_lookup")
    if way == "insert":
        await insert(database, place, 1)
    else:
        await database.fetch("SELECT queen.resync_lookup($1, 1000)", [place])
    assert await database.fetchval(_NUMBER, place) > before


async def test_a_sequence_that_was_set_back_is_noticed(database: asyncpg.Connection) -> None:
    """As a restore of the rows alone leaves it: refused, and no id repeats."""
    await ensure(database, "orders", "a")
    await database.execute("ALTER SEQUENCE queen.partition_numbers RESTART")
    with pytest.raises(asyncpg.UniqueViolationError, match="partition_lookup_number_key"):
        await ensure(database, "orders", "b")
