"""The queue option `ackHistory` over HTTP: what consumers did stands in a table, or does not."""

from __future__ import annotations

import asyncpg
import pytest

from tests.support.broker import Api, unique


@pytest.mark.parametrize("is_kept", [True, False])
async def test_what_consumers_did_is_kept_where_it_is_asked_for(
    api: Api, shared_database_url: str, is_kept: bool
) -> None:
    queue = unique()
    answer = await api.configure(queue, ackHistory=is_kept)
    assert answer["options"]["ackHistory"] is is_kept
    await api.push(queue, 1, 2, 3, 4)
    await api.pop(queue, autoAck=True)
    await api.ack(*await api.pop(queue))
    (message,) = await api.pop(queue)
    settled = {name: message[name] for name in ("transactionId", "partitionId", "leaseId")}
    await api.transaction([{"type": "ack", "status": "completed", **settled}])
    await api.ack(*await api.pop(queue), status="dlq", error="no")
    session = await asyncpg.connect(shared_database_url)
    try:
        rows = await session.fetch(
            "SELECT h.cause, h.first_seq, h.last_seq, h.dead_lettered FROM queen.ack_history h"
            " JOIN queen.queues q ON q.id = h.queue_id WHERE q.name = $1 ORDER BY h.id",
            queue,
        )
    finally:
        await session.close()
    steps = [("autoAck", 1, 1, 0), ("ack", 2, 2, 0), ("ack", 3, 3, 0), ("ack", 4, 4, 1)]
    assert [tuple(row) for row in rows] == (steps if is_kept else [])
