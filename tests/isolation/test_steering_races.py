"""An operator moves a cursor while an ack of its lease runs: the later one loses."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.isolation.sessions import (
    QUEUE_MODE,
    Connect,
    Popped,
    Want,
    ack_completed,
    acks_of,
    cursor,
    ensure,
    pop,
    pop_one,
    push_all,
    release,
    renew,
    start_blocked,
)
from tests.support.broker import unique

_STALE = "Invalid or expired lease"

#: Calls with $1 the group, $2 the queue and $3 the partition; where each leaves the cursor that a
#: lease of the messages 1 to 3 of 5 is on, and what was acked if the ack comes first.
_STEERS = {
    "end_lease": ("SELECT queen.end_lease($1, $2, $3, 10000)", 0, 3),
    "back": ("SELECT queen.move_cursor($1, $2, $3, 1)", 0, 0),
    "within": ("SELECT queen.move_cursor($1, $2, $3, 3)", 2, 2),
    "to the end of the lease": ("SELECT queen.move_cursor($1, $2, $3, 4)", 3, 3),
    "beyond the end": ("SELECT queen.move_cursor($1, $2, $3, 99)", 5, 5),
    "seek": ("SELECT FROM queen.seek_group($1, $2, $3, 'epoch')", 0, 0),
    "clear": ("SELECT $1::text, queen.clear_queue($2, $3)", 5, 5),
}


class _Place:
    """A partition with five messages, of which three are leased."""

    queue: str
    id: UUID
    popped: Popped


@pytest.fixture
async def place(database: asyncpg.Connection) -> _Place:
    made = _Place()
    made.queue = unique()
    (made.id,) = await ensure(database, made.queue, "p")
    await push_all(database, made.id, 1, 2, 3, 4, 5)
    made.popped = await pop_one(database, made.id, batch=3)
    return made


async def _steer(session: asyncpg.Connection, how: str, queue: str) -> Any:
    return await session.fetch(_STEERS[how][0], QUEUE_MODE, queue, "p")


@pytest.mark.parametrize("how", _STEERS)
async def test_an_ack_that_waits_for_an_operator_is_refused(
    database: asyncpg.Connection, connect: Connect, place: _Place, how: str
) -> None:
    operator, acker = await connect(), await connect()
    opened = operator.transaction()
    await opened.start()
    await _steer(operator, how, place.queue)
    acking = await start_blocked(database, acker, ack_completed(acker, acks_of(place.popped)))
    assert await pop(database, Want([place.id])) == []
    await opened.commit()
    answers = {row["error"] for row in await acking}
    assert answers == ({"Message not found"} if how == "clear" else {_STALE})
    row = await cursor(database, place.id)
    assert row is not None and (row["cursor_seq"], row["is_leased"]) == (_STEERS[how][1], False)
    # Nothing that the old lease says counts any more.
    assert (await renew(database, place.popped.lease_id))["renewed"] == 0
    assert await release(database, place.popped) == 0
    left = [] if how == "clear" else [1, 2, 3, 4, 5][_STEERS[how][1] :]
    assert (await pop_one(database, place.id)).data == left


@pytest.mark.parametrize("how", _STEERS)
async def test_an_operator_who_waits_for_an_ack_sees_it(
    database: asyncpg.Connection, connect: Connect, place: _Place, how: str
) -> None:
    operator, acker = await connect(), await connect()
    opened = acker.transaction()
    await opened.start()
    assert all(row["success"] for row in await ack_completed(acker, acks_of(place.popped)))
    steering = await start_blocked(database, operator, _steer(operator, how, place.queue))
    await opened.commit()
    await steering
    row = await cursor(database, place.id)
    assert row is not None and (row["cursor_seq"], row["is_leased"]) == (_STEERS[how][2], False)


async def test_an_ack_beside_the_burial_of_its_last_message_ends_the_lease(
    database: asyncpg.Connection, connect: Connect, place: _Place
) -> None:
    operator, acker = await connect(), await connect()
    buried = place.popped.messages[2]["transactionId"]
    opened = operator.transaction()
    await opened.start()
    await operator.fetch("SELECT * FROM queen.bury_message($1, $2, 'bad', 1000)", place.id, buried)
    acking = await start_blocked(database, acker, ack_completed(acker, acks_of(place.popped)))
    await opened.commit()
    assert [row["error"] for row in await acking] == [None, None, "Message not found"]
    row = await cursor(database, place.id)
    assert row is not None and not row["is_leased"]
    assert (await pop_one(database, place.id)).data == [4, 5]
    assert await database.fetchval("SELECT count(*) FROM queen.dead_letter_queue") == 1
