"""Queues with a maxSize: what takes room, who gets it, and what was accepted before."""

from __future__ import annotations

import random
from collections.abc import Sequence
from uuid import UUID

import asyncpg
import pytest

from tests.isolation.sessions import (
    Item,
    Pushed,
    ack,
    acks_of,
    configure,
    ensure,
    pop_one,
    push,
    push_all,
    push_arguments,
)
from tests.support.broker import unique
from tests.support.operations import claim, enqueue, operations, run, run_all, settle, stored


async def _places(
    database: asyncpg.Connection, max_size: int, *names: str, queue: str | None = None
) -> list[UUID]:
    queue = queue or unique()
    await configure(database, queue, max_size=max_size)
    return await ensure(database, queue, *names)


async def _push_requests(
    database: asyncpg.Connection, *requests: Sequence[Item], are_ids_new: bool = False
) -> Pushed:
    """Requests that share a call, made again with a look for duplicates as the broker does."""
    items = [item for request in requests for item in request]
    try:
        row = await database.fetchrow(
            "SELECT message_ids, outcomes FROM queen.push_messages("
            "$1, $2, $3, $4, $5, $6, $7, $8, NULL, 1000, false, false, NULL, $9)",
            *push_arguments(items),
            [len(request) for request in requests],
            are_ids_new,
        )
    except asyncpg.UniqueViolationError:
        assert are_ids_new
        return await _push_requests(database, *requests)
    return Pushed(row["message_ids"], row["outcomes"])


# Duplicates.


@pytest.mark.parametrize("are_ids_new", [False, True])
async def test_duplicates_need_no_room(database: asyncpg.Connection, are_ids_new: bool) -> None:
    (place,) = await _places(database, 10)
    old = [Item(place, n, f"id-{n}") for n in range(6)]
    first = await push(database, *old)
    both = await _push_requests(
        database, [*old, *(Item(place, n, f"id-{n}") for n in range(6, 10))],
        are_ids_new=are_ids_new,
    )  # fmt: skip
    assert both.outcomes == "ddddddqqqq"
    assert both.message_ids[:6] == first.message_ids
    # Full: a duplicate is still told from what is refused.
    last = await _push_requests(
        database, [Item(place, 0, "id-0"), Item(place, 10, "id-10"), Item(place, 9, "id-9")],
        are_ids_new=are_ids_new,
    )  # fmt: skip
    assert last.outcomes == "dfd"
    assert last.message_ids == [first.message_ids[0], None, both.message_ids[9]]


async def test_room_goes_to_what_is_new_in_push_order_over_all_partitions(
    database: asyncpg.Connection,
) -> None:
    a, b = sorted(await _places(database, 3, "a", "b"))
    await push(database, Item(b, 0, "old"))
    pushed = await push(
        database,
        Item(b, 0, "old"),
        Item(b, 1, "new"),
        Item(a, 2),
        Item(b, 1, "new"),
        Item(a, 3, "late"),
        Item(b, 4),
        Item(a, 3, "late"),
    )
    assert pushed.outcomes == "dqqdfff"
    assert pushed.message_ids[1] == pushed.message_ids[3]
    assert (await stored(database, a), await stored(database, b)) == ([2], [0, 1])


async def test_requests_that_share_a_call_get_the_room_in_their_order(
    database: asyncpg.Connection,
) -> None:
    small, other = await _places(database, 2, "a", "b")
    (free,) = await ensure(database, unique())
    pushed = await _push_requests(
        database,
        [Item(other, 0, "x"), Item(free, 1)],
        [Item(other, 0, "x"), Item(small, 2)],
        [Item(small, 3), Item(free, 4)],
    )
    assert pushed.outcomes == "qqdqfq"
    assert await stored(database, free) == [1, 4]


@pytest.mark.parametrize("seed", range(5))
async def test_outcomes_are_those_of_one_item_after_another(
    database: asyncpg.Connection, seed: int
) -> None:
    chance = random.Random(seed)
    queues = [(unique(), chance.choice([0, 2, 5])) for _ in range(2)]
    alone, together = [
        [place for name, size in queues
         for place in await _places(database, size, "a", "b", queue=f"{name}-{way}")]
        for way in ("alone", "together")
    ]  # fmt: skip
    for _ in range(4):
        story = [
            (chance.randrange(4), chance.choice([None, "x", "y", "z", f"t{chance.random()}"]))
            for _ in range(chance.randrange(1, 9))
        ]
        wanted = "".join(
            [(await push(database, Item(alone[k], n, tx))).outcomes
             for n, (k, tx) in enumerate(story)]
        )  # fmt: skip
        items = [Item(together[k], n, tx) for n, (k, tx) in enumerate(story)]
        assert (await push(database, *items)).outcomes == wanted


# What was accepted.


async def test_an_accepted_push_larger_than_the_queue_is_stored(
    database: asyncpg.Connection,
) -> None:
    (place,) = await _places(database, 2)
    late = await push(database, *(Item(place, n) for n in range(5)), is_accepted=True)
    assert late.outcomes == "qqqqq"
    # It takes room all the same.
    assert (await push_all(database, place, 5)).outcomes == "f"
    await ack(database, *acks_of(await pop_one(database, place)))
    assert (await push_all(database, place, 6)).outcomes == "q"
    assert await stored(database, place) == [0, 1, 2, 3, 4, 6]


async def test_operations_are_stored_when_the_bound_was_lowered_meanwhile(
    database: asyncpg.Connection,
) -> None:
    queue = unique()
    a, b = await _places(database, 10, "a", "b", queue=queue)
    await enqueue(database, a, 1, 2, 3)
    await enqueue(database, b, 4)
    await configure(database, queue, max_size=1)
    assert await run_all(database) == 4
    assert (await stored(database, a), await stored(database, b)) == ([1, 2, 3], [4])
    assert not [row for row in await operations(database, a) if row["is_blocking"]]


async def test_what_waits_as_an_operation_takes_room(database: asyncpg.Connection) -> None:
    a, b = await _places(database, 3, "a", "b")
    await enqueue(database, a, 1, 2)
    assert (await push_all(database, b, 3, 4)).outcomes == "qf"


async def test_pushes_to_be_queued_are_refused_where_they_find_no_room(
    database: asyncpg.Connection,
) -> None:
    a, b = await _places(database, 3, "a", "b")
    await push(database, Item(a, 0, "old"))
    queued = await push(database, Item(a, 0, "old"), Item(a, 1), Item(b, 2), Item(a, 3), queued=[a])
    assert queued.outcomes == "ssqf"
    # Behind operations as well, and when nothing of a partition is left.
    behind = await push(database, Item(a, 4), Item(b, 5))
    assert behind.outcomes == "ff"
    assert behind.message_ids == [None, None]
    await run_all(database)
    assert (await stored(database, a), await stored(database, b)) == ([0, 1], [2])


async def test_a_discarded_operation_gives_its_room_back(database: asyncpg.Connection) -> None:
    (place,) = await _places(database, 1)
    (one,) = await enqueue(database, place, 1)
    assert (await push_all(database, place, 2)).outcomes == "f"
    assert await settle(database, one, "discard") == "pending"
    assert (await push_all(database, place, 2)).outcomes == "q"


# Discarding.


async def test_whatever_is_not_stored_can_be_discarded(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    first, second, third = await enqueue(database, place, 1, 2, 3)
    for action in ("retry", "discard"):
        assert await settle(database, UUID(int=0), action) is None
    assert await settle(database, second, "retry") == "pending"
    assert await settle(database, second, "discard") == "pending"
    await run_all(database)
    assert await stored(database, place) == [1, 3]
    statuses = {row["id"]: row["status"] for row in await operations(database, place)}
    assert statuses == {first: "completed", second: "discarded", third: "completed"}
    # What is over stays as it is.
    assert await settle(database, first, "discard") == "completed"
    assert await settle(database, second, "discard") == "discarded"
    assert await settle(database, second, "retry") == "discarded"


async def test_a_claimed_operation_is_taken_from_its_claim(database: asyncpg.Connection) -> None:
    (place,) = await ensure(database, unique())
    first, _ = await enqueue(database, place, 1, 2)
    claimed = await claim(database)
    assert await settle(database, first, "discard") == "processing"
    with pytest.raises(asyncpg.PostgresError) as raised:
        await run(database, claimed)
    assert raised.value.sqlstate == "QN004"
    assert await stored(database, place) == []
    await database.execute(
        "SELECT queen.release_operations($1, $2, NULL, NULL, false, 0)", claimed.ids, claimed.token
    )
    await run_all(database)
    assert await stored(database, place) == [2]
