"""Pops of a queue with many partitions, most of which have nothing for anyone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg
import pytest

from tests.conformance.test_metrics import read
from tests.isolation.sessions import QUEUE_MODE, ensure, push_all
from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.many_partitions import make_idle, make_passed

StartBroker = Callable[..., BrokerProcess]
_SOON_MS = int(SOON_S * 1000)
#: More than the newest messages that a look-up reads, so that only a walk finds older ones.
_PASSED = 6_000
_TIMEOUTS = "queen_smart_poll_preflight_timeouts_total"


async def _bury(database: asyncpg.Connection, queue: str, count: int, *groups: str) -> list[str]:
    """Push a message to each of some partitions, and many others after it that are done."""
    names = [f"old-{number}" for number in range(count)]
    for name, place in zip(names, await ensure(database, queue, *names), strict=True):
        await push_all(database, place, name)
    await make_passed(database, queue, _PASSED, groups=groups or (QUEUE_MODE,))
    await make_idle(database, queue, 10_000, groups=groups or (QUEUE_MODE,))
    return names


@pytest.mark.parametrize("query", [{}, {"wait": True, "timeout": _SOON_MS}], ids=["now", "wait"])
async def test_the_one_old_message_of_many_partitions_is_found(
    start_broker: StartBroker, database: asyncpg.Connection, query: dict[str, object]
) -> None:
    queue = unique()
    names = await _bury(database, queue, 1)
    api = Api(start_broker().url)
    assert await api.data(queue, autoAck=True, **query) == names
    assert await api.data(queue, autoAck=True) == [], "and it was the only one"
    # What is known now need not be searched again.
    await api.push(queue, "next", partition="old-0")
    assert await api.data(queue, autoAck=True) == ["next"]
    await api.close()


async def test_groups_of_a_large_queue_get_what_each_has_not_passed(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue = unique()
    names = await _bury(database, queue, 3, "a", "b")
    api = Api(start_broker().url)
    late = {"consumerGroup": "late", "subscriptionMode": "new"}
    assert await api.pop(queue, **late) == []
    for group in "ab":
        found = [await api.data(queue, consumerGroup=group, autoAck=True) for _ in range(4)]
        assert sorted(one for batch in found for one in batch) == names
    await api.push(queue, "last", partition="old-0")
    assert await api.data(queue, autoAck=True, **late) == ["last"]
    await api.close()


async def test_partitions_that_are_leased_hide_no_other(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    """More of them are leased than a broker remembers."""
    queue = unique()
    names = await _bury(database, queue, 2)
    await database.execute(
        "UPDATE queen.partition_consumers c SET cursor_seq = 0, lease_id = gen_random_uuid(),"
        " lease_end_seq = 1, lease_expires_at = now() + interval '1 hour'"
        " FROM queen.queues q WHERE q.id = c.queue_id AND q.name = $1 AND c.cursor_seq = 1",
        queue,
    )
    api = Api(start_broker().url)
    found = [await api.data(queue, autoAck=True) for _ in range(3)]
    assert sorted(one for batch in found for one in batch) == names
    await api.push(queue, "next", partition="old-0")
    assert await api.data(queue, autoAck=True, wait=True, timeout=_SOON_MS) == ["next"]
    await api.close()


async def test_brokers_that_search_at_once_deliver_each_message_once(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue = unique()
    names = await _bury(database, queue, 200)
    apis = [Api(start_broker().url) for _ in range(2)]

    async def drain(api: Api) -> list[str]:
        found: list[str] = []
        while batch := await api.pop(queue):
            found += [message["data"] for message in batch]
            assert all(one["success"] for one in await api.ack(*batch))
        return found

    found = await asyncio.gather(*(drain(api) for api in apis for _ in range(4)))
    assert sorted(one for batch in found for one in batch) == sorted(names)
    for api in apis:
        await api.close()


async def test_a_search_that_takes_long_is_no_time_out(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue = unique()
    names = await _bury(database, queue, 1)
    api = Api(start_broker().url)
    assert await api.data(queue, autoAck=True) == names
    assert await api.data(queue, autoAck=True) == []
    samples = await read(api)
    assert samples["queen_smart_poll_preflight_queries_total"] > 3, "it was one slice"
    assert samples.get(_TIMEOUTS, 0) == 0
    await api.close()
