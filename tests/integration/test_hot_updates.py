"""The two hottest rows are rewritten in place: no index entry per push, pop or ack."""

from __future__ import annotations

import asyncpg
import pytest

from tests.isolation.sessions import Item, Want, ack, acks_of, ensure, pop, push
from tests.support.broker import SOON_S, unique
from tests.support.waiting import wait_until_async

_PARTITIONS = 20
_ROUNDS = 100


@pytest.fixture
async def busy_database(database: asyncpg.Connection) -> asyncpg.Connection:
    """A database after a day of work in small: each partition pushed to, popped, acked."""
    places = await ensure(database, unique(), *(f"p{number}" for number in range(_PARTITIONS)))
    for turn in range(_ROUNDS):
        await push(database, *(Item(place, turn) for place in places))
        rows = await pop(database, *(Want([place], "group") for place in places))
        assert len(rows) == _PARTITIONS
        await ack(database, *(one for row in rows for one in acks_of(row, group="group")))
    await database.execute("SELECT pg_stat_force_next_flush()")
    return database


@pytest.mark.parametrize(
    ("table", "updates_per_round"),
    [
        pytest.param("partition_lookup", 1, id="lookup"),
        pytest.param("partition_consumers", 2, id="cursor"),
    ],
)
async def test_at_least_nine_of_ten_updates_are_hot(
    busy_database: asyncpg.Connection, table: str, updates_per_round: int
) -> None:
    wanted = _PARTITIONS * _ROUNDS * updates_per_round

    async def counts() -> asyncpg.Record | None:
        row = await busy_database.fetchrow(
            "SELECT n_tup_upd AS updates, n_tup_hot_upd AS hot FROM pg_stat_user_tables"
            " WHERE schemaname = 'queen' AND relname = $1",
            table,
        )
        return row if row is not None and row["updates"] >= wanted else None

    row = await wait_until_async(counts, timeout_s=SOON_S, what="the statistics")
    assert row["hot"] >= 0.9 * row["updates"], dict(row)


@pytest.mark.parametrize("table", ["partition_lookup", "partition_consumers"])
async def test_no_index_covers_a_column_that_changes(
    database: asyncpg.Connection, table: str
) -> None:
    rows = await database.fetch(
        "SELECT DISTINCT a.attname::text FROM pg_index i"
        " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)"
        " WHERE i.indrelid = ('queen.' || $1)::regclass",
        table,
    )
    assert {row["attname"] for row in rows} <= {
        "partition_id",
        "queue_id",
        "consumer_group",
        "number",
    }
