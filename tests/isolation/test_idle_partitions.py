"""Empty, idle partitions are removed, and whoever uses one meanwhile never notices."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.isolation.sessions import (
    QUEUE_MODE,
    Connect,
    Want,
    ack,
    acks_of,
    configure,
    ensure,
    pop,
    pop_one,
    push_all,
    start_blocked,
)
from tests.support.idle_partitions import IDLE, Removed, make_idle, names, remove
from tests.support.operations import enqueue
from tests.support.retention import retain
from tests.support.staging import Row, publish, stage

_TABLES = (
    "partitions", "partition_lookup", "partition_consumers", "archive_marks", "removed_messages",
)  # fmt: skip
_SUBSCRIBE = "SELECT queen.subscribe_groups($1, $2, $3, $4)"


async def _idle(session: asyncpg.Connection, *partitions: str, **columns: Any) -> list[UUID]:
    """Queue q with partitions that had messages once."""
    await configure(session, "q", partition_idle_seconds=IDLE, **columns)
    places = await ensure(session, "q", *partitions)
    for place in places:
        await push_all(session, place, 1, 2)
        await pop_one(session, place, batch=5, auto_ack=True)
    await make_idle(session, *places, *await ensure(session, "q"))
    return places


async def _refer(session: asyncpg.Connection, place: UUID, what: str) -> None:
    """Make something refer to an idle partition."""
    queue_id = await session.fetchval("SELECT id FROM queen.queues WHERE name = 'q'")
    if what == "message":
        await push_all(session, place, 3)
        await session.execute(
            "UPDATE queen.partition_lookup SET last_message_created_at = 'epoch'"
            " WHERE partition_id = $1",
            place,
        )
    elif what == "unnoticed message":
        await session.execute("SELECT set_config('queen.tracks_lookup', 'on', false)")
        await session.execute(
            "INSERT INTO queen.messages (partition_id, seq, id, queue_id, created_at, payload)"
            " VALUES ($1, 9, gen_random_uuid(), $2, 'epoch', '1')",
            place,
            queue_id,
        )
        await session.execute("SELECT set_config('queen.tracks_lookup', '', false)")
    elif what == "operation":
        await enqueue(session, place, "waits")
    elif what == "dead letter":
        await session.execute(
            "INSERT INTO queen.dead_letter_queue (queue_id, partition_id, consumer_group,"
            " message_id, seq, transaction_id, payload, error_message, retry_count, created_at,"
            " failed_at) VALUES ($2, $1, 'g', gen_random_uuid(), 1, 't', '1', 'e', 0, 'epoch',"
            " 'epoch')",
            place,
            queue_id,
        )
    elif what == "trace":
        await session.execute(
            "INSERT INTO queen.message_traces (queue_id, partition_id, seq, transaction_id,"
            " consumer_group, event_type, data) VALUES ($2, $1, 1, 't', 'g', 'e', '{}')",
            place,
            queue_id,
        )
    elif what == "lease":
        await session.execute(
            "UPDATE queen.partition_consumers SET lease_id = gen_random_uuid(),"
            " lease_end_seq = cursor_seq + 1, lease_expires_at = now() + interval '1 hour'"
            " WHERE partition_id = $1",
            place,
        )
    elif what in ("stream state", "stream cycle"):
        keys = int(what == "stream state")
        await session.execute(
            "INSERT INTO queen_streams.partitions (query_id, partition_id, state_keys,"
            " last_cycle_at) VALUES ($1, $2, $3, $4)",
            uuid4(),
            place,
            keys,
            datetime.fromtimestamp(0, UTC) if keys else datetime.now(UTC),
        )
    elif what == "pop":
        await session.execute(
            "UPDATE queen.partition_consumers SET last_served_at = now() WHERE partition_id = $1",
            place,
        )
    else:
        assert what == "push"
        await session.execute(
            "UPDATE queen.partition_lookup SET last_message_created_at = now()"
            " WHERE partition_id = $1",
            place,
        )


_REASONS = (
    "message", "unnoticed message", "operation", "dead letter", "trace", "lease", "stream state",
    "stream cycle", "pop", "push",
)  # fmt: skip


async def test_only_what_nothing_refers_to_goes(database: asyncpg.Connection) -> None:
    places = await _idle(database, *_REASONS, "idle")
    await ensure(database, "q", "just made")
    await database.execute(
        "INSERT INTO queen.archive_marks (partition_id, lake, archived_seq) VALUES ($1, $2, 2)",
        places[-1],
        uuid4(),
    )
    await database.execute("INSERT INTO queen.removed_messages VALUES ($1, 2)", places[-1])
    for place, reason in zip(places, _REASONS, strict=False):
        await _refer(database, place, reason)
    assert await remove(database, "q") == Removed(2)
    assert await names(database, "q") == {*_REASONS, "just made"}
    for table in _TABLES:
        key = "id" if table == "partitions" else "partition_id"
        left = await database.fetchval(
            f"SELECT count(*) FROM queen.{table} WHERE {key} = $1", places[-1]
        )
        assert left == 0, table
    assert await remove(database, "q") == Removed(0)


async def test_a_queue_may_keep_its_partitions(database: asyncpg.Connection) -> None:
    await _idle(database, "p")
    for reason in (
        "UPDATE queen.queues SET partition_idle_seconds = 0",
        "UPDATE queen.queues SET partition_idle_seconds = 2147483647",
        # Steps of its groups may be in what is left of the history.
        "INSERT INTO queen.ack_history (queue_id, passed_at, partition_id, consumer_group,"
        " first_seq, last_seq, cause, completed, dead_lettered, retries) SELECT id, 'epoch',"
        " gen_random_uuid(), 'g', 1, 1, 'ack', 1, 0, 0 FROM queen.queues",
        # Without its cursor the group would leave out what comes before its start.
        "INSERT INTO queen.consumer_groups_metadata (queue_name, consumer_group,"
        " subscription_mode, subscription_timestamp)"
        " VALUES ('q', 'g', 'timestamp', now() + interval '1 hour')",
    ):
        opened = database.transaction()
        await opened.start()
        await database.execute(reason)
        assert await remove(database, "q") == Removed(0), reason
        await opened.rollback()
    assert await remove(database, "q") == Removed(2)
    assert await remove(database, "unknown") == Removed(0)


async def test_calls_go_on_where_the_last_one_stopped(database: asyncpg.Connection) -> None:
    await _idle(database, *map(str, range(9)))
    gone, after, calls = 0, None, 0
    while calls == 0 or after is not None:
        done = await remove(database, "q", after, partitions_max=4, removals_max=3)
        assert done.removed <= 3
        gone, after, calls = gone + done.removed, done.next_after, calls + 1
    assert (gone, await names(database, "q")) == (10, set())
    counted = await database.fetchval("SELECT sum(removed_partitions) FROM queen.retention_history")
    assert counted == 10


async def test_a_partition_in_use_is_left_alone(
    database: asyncpg.Connection, connect: Connect
) -> None:
    pushed, popped, marked, _ = await _idle(database, "pushed", "popped", "cycle", "free")
    await database.execute(
        "INSERT INTO queen_streams.partitions (query_id, partition_id, last_cycle_at)"
        " VALUES ($1, $2, 'epoch')",
        uuid4(),
        marked,
    )
    user = await connect()
    opened = user.transaction()
    await opened.start()
    await push_all(user, pushed, 3)
    await user.execute(
        "SELECT FROM queen.partition_consumers WHERE partition_id = $1 FOR UPDATE", popped
    )
    await user.execute(
        "SELECT FROM queen_streams.partitions WHERE partition_id = $1 FOR UPDATE", marked
    )
    assert await remove(database, "q") == Removed(2)
    assert await names(database, "q") == {"pushed", "popped", "cycle"}
    await opened.rollback()
    assert await remove(database, "q") == Removed(3)


async def test_a_caller_who_was_told_an_id_keeps_it_to_the_end(
    database: asyncpg.Connection, connect: Connect
) -> None:
    """queen.push looks the partition up first; it must not hear that it has gone since."""
    await _idle(database, "p")
    caller = await connect()
    opened = caller.transaction()
    await opened.start()
    await ensure(caller, "q", "other")
    assert await remove(database, "q") == Removed(0, UUID(int=0), True)
    await opened.commit()
    assert await remove(database, "q") == Removed(2)
    await database.fetchval("SELECT queen.push('q', '1', partition => 'p')")
    await publish(database, "query", 0, await stage(database, Row("q", 2, "p2")))
    assert await names(database, "q") == {"other", "p", "p2"}


async def test_a_push_that_waits_for_a_removal_makes_the_partition_anew(
    database: asyncpg.Connection, connect: Connect
) -> None:
    (place,) = await _idle(database, "p")
    keeper, producer, maker = await connect(), await connect(), await connect()
    opened = keeper.transaction()
    await opened.start()
    assert await remove(keeper, "q") == Removed(2)
    pushing = await start_blocked(database, producer, push_all(producer, place, 3))
    making = await start_blocked(database, maker, ensure(maker, "q", "p"))
    # A pop passes by.
    assert await pop(database, Want([place], "another group")) == []
    await opened.commit()
    with pytest.raises(asyncpg.PostgresError) as refusal:
        await pushing
    assert refusal.value.sqlstate == "QN001"
    (anew,) = await making
    assert anew != place
    stored = await push_all(database, anew, 3)
    assert (await pop_one(database, anew)).data == [3]
    assert stored.outcomes == "q"


@pytest.mark.parametrize("start", ["none", "new", "partition"])
async def test_a_group_gets_all_that_is_pushed_to_a_partition_made_anew(
    database: asyncpg.Connection, start: str
) -> None:
    await configure(database, "q", partition_idle_seconds=IDLE)
    (place,) = await ensure(database, "q", "p")
    await push_all(database, place, "old")
    if start != "none":
        name = "p" if start == "partition" else ""
        await database.execute(_SUBSCRIBE, ["q"], [name], ["g"], [None])
    await push_all(database, place, 1)
    popped = await pop_one(database, place, "g")
    assert popped.data == (["old", 1] if start == "none" else [1])
    await ack(database, *acks_of(popped, group="g"))
    await make_idle(database, place, *await ensure(database, "q"))
    assert await remove(database, "q") == Removed(2)

    (anew,) = await ensure(database, "q", "p")
    await push_all(database, anew, 2)
    if start != "none":
        # As the consumer does that names its start with every pop.
        await database.execute(_SUBSCRIBE, ["q"], [name], ["g"], [None])
    assert (await pop_one(database, anew, "g")).data == [2]


async def test_retention_waits_for_a_group_whose_cursors_are_gone(
    database: asyncpg.Connection,
) -> None:
    """Invariant: nothing goes that a group has not passed. The group must stay known."""
    await configure(
        database,
        "q",
        partition_idle_seconds=IDLE,
        retention_enabled=True,
        completed_retention_seconds=1,
    )
    (place,) = await ensure(database, "q", "p")
    await push_all(database, place, 1)
    for group in ("fast", "slow", QUEUE_MODE):
        await ack(database, *acks_of(await pop_one(database, place, group), group=group))
    await make_idle(database, place, *await ensure(database, "q"))
    assert await remove(database, "q") == Removed(2)

    (anew,) = await ensure(database, "q", "p")
    await push_all(database, anew, 2)
    await database.execute("UPDATE queen.messages SET created_at = 'epoch'")
    for group in ("fast", QUEUE_MODE):
        await ack(database, *acks_of(await pop_one(database, anew, group), group=group))
    assert (await retain(database, "q")).completed == 0
    assert (await pop_one(database, anew, "slow", auto_ack=True)).data == [2]
    assert (await retain(database, "q")).completed == 1


async def test_removals_and_pushes_at_once_neither_wait_in_a_circle_nor_lose_anything(
    database: asyncpg.Connection, connect: Connect
) -> None:
    partitions = [f"p{number}" for number in range(8)]
    await _idle(database, *partitions)
    remover, *producers = [await connect() for _ in range(5)]
    pushed: list[tuple[str, int]] = []
    is_over = asyncio.Event()

    async def produce(session: asyncpg.Connection, number: int) -> None:
        for turn in range(60):
            name = partitions[(turn * 5 + number) % len(partitions)]
            payload = number * 1_000 + turn
            text = str(payload)
            await session.fetchval("SELECT queen.push('q', $1, partition => $2)", text, name)
            pushed.append((name, payload))
            (place,) = await ensure(session, "q", name)
            got = (await session.fetchval("SELECT count(*) FROM queen.messages WHERE"
                                          " partition_id = $1", place))  # fmt: skip
            assert got >= 1

    async def take_away() -> int:
        gone = 0
        while not is_over.is_set():
            gone += (await remove(remover, "q")).removed
            empty = await remover.fetch(
                "SELECT l.partition_id FROM queen.partition_lookup l WHERE l.last_seq = 0"
            )
            await make_idle(remover, *(row[0] for row in empty))
        return gone

    removing = asyncio.create_task(take_away())
    await asyncio.gather(*(produce(one, number) for number, one in enumerate(producers)))
    is_over.set()
    assert await removing > 0
    rows = await database.fetch(
        "SELECT p.name, m.payload::text::integer AS payload FROM queen.messages m"
        " JOIN queen.partitions p ON p.id = m.partition_id ORDER BY p.name, m.seq"
    )
    assert sorted((row["name"], row["payload"]) for row in rows) == sorted(pushed)
