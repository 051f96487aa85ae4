"""What pops do to the database when there is nothing to deliver: look, and not try to lease."""

from __future__ import annotations

import asyncpg

from tests.acceptance.load import Wire, pop_path, wires
from tests.isolation.sessions import configure
from tests.support.broker import BrokerProcess, unique

_CURSORS = """
SELECT p.name, pc.ctid::text, pc.xmin::text, pc.xmax::text
FROM queen.partition_consumers pc JOIN queen.partitions p ON p.id = pc.partition_id
JOIN queen.queues q ON q.id = p.queue_id WHERE q.name = $1 ORDER BY 1
"""


async def _cursors(session: asyncpg.Connection, queue: str) -> list[tuple[str, ...]]:
    """The cursor rows with the transactions that wrote or locked them: any attempt shows."""
    return [tuple(row) for row in await session.fetch(_CURSORS, queue)]


async def _push_each(wire: Wire, queue: str, partitions: int, messages: int) -> None:
    items = [
        {"queue": queue, "partition": f"p{place}", "payload": number}
        for place in range(partitions)
        for number in range(messages)
    ]
    assert (await wire.call("POST", "/api/v1/push", {"items": items})).status == 201


async def _age(session: asyncpg.Connection, queue: str, partition: str) -> None:
    """Make what a partition holds a day old."""
    for table, column in (
        ("messages", "created_at"),
        ("partition_lookup", "last_message_created_at"),
    ):
        await session.execute(
            f"UPDATE queen.{table} SET {column} = {column} - interval '1 day'"
            " WHERE partition_id IN (SELECT p.id FROM queen.partitions p JOIN queen.queues q"
            " ON q.id = p.queue_id WHERE q.name = $1 AND p.name = $2)",
            queue,
            partition,
        )


async def _pop_in_vain(url: str, queue: str) -> None:
    """Pops that wait and pops that do not, one after the other and at once."""
    async with wires([url] * 5) as polls:
        for poll in polls:
            poll.send("GET", pop_path(queue, wait=True, timeout=400))
        assert [(await poll.receive()).status for poll in polls] == [204] * 5
        for poll in polls:
            assert await poll.pop(queue, batch=10, partitions=10) == []


async def test_pops_of_an_empty_queue_lease_nothing(
    broker: BrokerProcess, shared_database: asyncpg.Connection
) -> None:
    queue = unique()
    await configure(shared_database, queue)
    await _pop_in_vain(broker.url, queue)
    assert await _cursors(shared_database, queue) == []


async def test_pops_of_a_queue_whose_messages_were_deleted_become_cheap(
    broker: BrokerProcess, shared_database: asyncpg.Connection
) -> None:
    queue = unique()
    async with Wire(broker.url) as wire:
        await _push_each(wire, queue, 20, 10)
        await shared_database.execute(
            "DELETE FROM queen.messages m USING queen.queues q"
            " WHERE q.id = m.queue_id AND q.name = $1",
            queue,
        )
        assert await wire.pop(queue, batch=10) == []
        before = await _cursors(shared_database, queue)
        await _pop_in_vain(broker.url, queue)
        assert await _cursors(shared_database, queue) == before
        # And what comes afterwards is delivered as ever.
        await _push_each(wire, queue, 1, 1)
        assert [message["data"] for message in await wire.pop(queue)] == [0]


async def test_pops_pass_over_partitions_that_are_not_due_without_leasing(
    broker: BrokerProcess, shared_database: asyncpg.Connection
) -> None:
    queue = unique()
    await configure(shared_database, queue, delayed_processing=3600)
    async with Wire(broker.url) as wire:
        for _ in range(5):
            assert (await wire.push(queue, "due", partition="due")).status == 201
        await _age(shared_database, queue, "due")
        await _push_each(wire, queue, 20, 1)
        for _ in range(5):
            messages = await wire.pop(queue, autoAck=True)
            assert [message["data"] for message in messages] == ["due"]
        assert await wire.pop(queue) == []
        before = await _cursors(shared_database, queue)
        await _pop_in_vain(broker.url, queue)
        assert await _cursors(shared_database, queue) == before
