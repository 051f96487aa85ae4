"""Stream cycles that race: over two brokers, against held rows, deletions and resets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest

from tests.isolation.sessions import Connect
from tests.support.broker import SOON_S, Api, BrokerProcess
from tests.support.stream_calls import Query, drop, new_query, out, put
from tests.support.waiting import wait_until_async

_ORPHANS = (
    "SELECT (SELECT count(*) FROM queen_streams.state s WHERE NOT EXISTS"
    " (SELECT FROM queen.partitions p WHERE p.id = s.partition_id))"
    " + (SELECT count(*) FROM queen_streams.partitions t WHERE NOT EXISTS"
    " (SELECT FROM queen.partitions p WHERE p.id = t.partition_id))"
)
_SIZES = (
    "SELECT count(*) FROM queen_streams.partitions t CROSS JOIN LATERAL"
    " (SELECT count(*) AS keys, coalesce(sum(s.bytes), 0) AS bytes FROM queen_streams.state s"
    " WHERE s.query_id = t.query_id AND s.partition_id = t.partition_id) x"
    " WHERE t.state_keys <> x.keys OR t.state_bytes <> x.bytes"
)


@pytest.fixture
async def apis(start_broker: Callable[..., BrokerProcess]) -> AsyncIterator[list[Api]]:
    """Two brokers on one database."""
    found = [Api(start_broker(QUEEN_STREAM_STATE_BYTES_MAX="3000").url) for _ in range(2)]
    yield found
    for api in found:
        await api.close()


def _through(query: Query, api: Api) -> Query:
    """The same query over another broker."""
    twin = Query(api, query.name, query.source, query.sink)
    twin.id = query.id
    return twin


async def test_cycles_race(apis: list[Api], database: asyncpg.Connection, connect: Connect) -> None:
    await _race_workers(apis)
    await _race_flushes(apis)
    await _wait_for_a_held_pair(apis[0], connect)
    await _race_deletion_and_reset(apis)
    await _pass_the_bound(apis[0])
    assert await database.fetchval(_ORPHANS) == 0
    assert await database.fetchval(_SIZES) == 0


async def _race_workers(apis: list[Api]) -> None:
    """Of workers with one lease, over both brokers, one commits each batch."""
    query = await new_query(apis[0])
    twin = _through(query, apis[1])
    for number in range(12):
        await apis[0].push(query.source, number, partition=f"p{number}")
    messages = await query.pop(partitions=12)
    assert len(messages) == 12

    async def race(message: Any) -> list[bool]:
        answers = await asyncio.gather(
            *(
                one.cycle(message["partitionId"], [put("by", n)], [out(query.sink, n)], message)
                for n, one in enumerate((query, twin, query, twin))
            )
        )
        state = await query.state(message["partitionId"])
        wins = [answer["success"] for answer in answers]
        assert state == {"by": wins.index(True)}
        return wins

    for wins in await asyncio.gather(*(race(message) for message in messages)):
        assert sum(wins) == 1
    assert len(await apis[0].pop(query.sink, batch=100)) == 12


async def _race_flushes(apis: list[Api]) -> None:
    """Two flushes and a worker on one window: no count is lost, none comes twice.

    The flushes name the version that they read, as our client does (ADR 22).
    """
    query = await new_query(apis[0])
    twin = _through(query, apis[1])
    emitted = 0
    for number in range(15):
        await apis[0].push(query.source, number, partition="p")

    async def work() -> None:
        """Count messages in a window, as a worker does under its lease."""
        while messages := await query.pop(batch=1):
            place = messages[0]["partitionId"]
            count = (await query.state(place)).get("w", 0)
            done = await query.cycle(place, [put("w", count + 1)], [], messages[0])
            assert done["success"], done

    async def flush(one: Query, place: str) -> int:
        """Close the window as it was read; how much it held."""
        state, version = await one.versioned_state(place)
        count = state.get("w", 0)
        if not count:
            return 0
        # A copy of a flush would be answered as the first one.
        closed = {"count": count, "by": one.api.http.base_url.port}
        done = await one.cycle(place, [drop("w")], [out(one.sink, closed)], state_version=version)
        return count if done["success"] else 0

    (first,) = await query.pop(batch=1)
    place = first["partitionId"]
    assert (await query.cycle(place, [put("w", 1)], [], first))["success"]
    working = asyncio.create_task(work())
    while not working.done():
        emitted += sum(await asyncio.gather(flush(query, place), flush(twin, place)))
    await working
    emitted += await flush(query, place)
    assert emitted == 15
    pushed = [one["data"]["count"] for one in await apis[0].pop(query.sink, batch=100)]
    assert sum(pushed) == 15


async def _wait_for_a_held_pair(api: Api, connect: Connect) -> None:
    """A pair that another session holds stops its own cycles only."""
    held, free = await new_query(api, 1), await new_query(api, 1)
    popped = [(await query.pop())[0] for query in (held, free)]
    for query, message in zip((held, free), popped, strict=True):
        assert (await query.cycle(message["partitionId"], [put("a", 1)]))["success"]
    holder = await connect()
    await holder.execute("BEGIN")
    await holder.execute(
        "SELECT FROM queen_streams.partitions WHERE query_id = $1 FOR UPDATE", held.id
    )
    waiting = asyncio.create_task(
        held.cycle(popped[0]["partitionId"], [put("a", 2)], [], popped[0])
    )
    assert (await free.cycle(popped[1]["partitionId"], [put("a", 2)], [], popped[1]))["success"]
    assert not waiting.done()
    await holder.execute("COMMIT")
    assert (await waiting)["success"]


async def _race_deletion_and_reset(apis: list[Api]) -> None:
    """Deletions and resets beside cycles end well, and leave nothing behind."""
    query = await new_query(apis[0])
    twin = _through(query, apis[1])

    async def work(one: Query, number: int) -> None:
        for turn in range(6):
            await one.api.push(one.source, turn, partition=f"p{number}")
            for message in await one.pop(batch=1, partitions=4):
                pushes = [out(one.sink, turn, partition=f"s{number}")]
                await one.cycle(message["partitionId"], [put("k", turn)], pushes, message)

    async def disturb() -> None:
        for turn in range(4):
            path = f"/api/v1/resources/queues/{(query.source, query.sink)[turn % 2]}"
            await apis[1].http.delete(path)
            assert (await query.register(reset=True))["success"]

    await asyncio.gather(
        *(work(one, number) for number, one in enumerate((query, twin, query, twin))), disturb()
    )
    await apis[0].push(query.source, "last", partition="end")
    (message,) = (await query.pop(partitions=10))[-1:]
    assert (await query.cycle(message["partitionId"], [put("k", 1)], [], message))["success"]


async def _pass_the_bound(api: Api) -> None:
    """A query with too much state cannot add to it, but remove some."""
    query = await new_query(api, 1)
    (message,) = await query.pop()
    place = message["partitionId"]
    assert (await query.cycle(place, [], [], message))["success"]
    refused = ""
    for number in range(10):
        answer = await query.cycle(place, [put(f"k{number}", "x" * 1000)])
        if not answer["success"]:
            refused = answer["error"]
            break
    assert "stream_state_bytes_max" in refused
    assert len(await query.state(place)) == 3
    # The last one that was committed is answered again, should its answer have been lost.
    assert (await query.cycle(place, [put("k2", "x" * 1000)]))["success"]
    assert (await query.cycle(place, [drop("k0"), drop("k1")]))["success"]

    async def is_accepted() -> bool:
        return bool((await query.cycle(place, [put("k9", "y")]))["success"])

    await wait_until_async(is_accepted, timeout_s=SOON_S, what="the bound to be met again")
