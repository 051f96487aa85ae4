"""Many producers on one partition while a group consumes: nothing skipped, doubled or reordered."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable

import asyncpg
import pytest

from tests.acceptance.load import Record, Wire, produce_by_http, wires
from tests.support.broker import BrokerProcess, unique

pytestmark = pytest.mark.slow

_PRODUCERS = 8
_COUNT = 1_000
_TOTAL = _PRODUCERS * _COUNT
#: Pushes of one SQL transaction; the partition is held from the first to the commit.
_PUSHES_PER_TRANSACTION = 40

StartBroker = Callable[..., BrokerProcess]


async def _consumers(record: Record, urls: list[str], queue: str) -> None:
    async with wires(urls) as connections:
        async with asyncio.TaskGroup() as tasks:
            for wire in connections:
                tasks.create_task(record.consume(wire, queue, "group", _TOTAL))


async def _producers(urls: list[str], queue: str, *, first: int = 0) -> None:
    async with wires(urls) as connections:
        async with asyncio.TaskGroup() as tasks:
            for producer, wire in enumerate(connections, first):
                tasks.create_task(produce_by_http(queue, producer, _COUNT)(wire))


async def _assert_dense(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        row = await connection.fetchrow(
            "SELECT count(*) AS messages, min(seq) AS first, max(seq) AS last,"
            " count(DISTINCT id) AS ids FROM queen.messages"
        )
    finally:
        await connection.close()
    assert tuple(row) == (_TOTAL, 1, _TOTAL, _TOTAL)


async def test_eight_producers_on_one_broker_lose_nothing(
    start_broker: StartBroker, database_url: str
) -> None:
    broker, queue, record = start_broker(), unique(), Record()
    await asyncio.gather(
        _producers([broker.url] * _PRODUCERS, queue), _consumers(record, [broker.url] * 3, queue)
    )
    record.assert_complete(_PRODUCERS, _COUNT)
    await _assert_dense(database_url)


async def test_eight_producers_on_two_brokers_lose_nothing(
    start_broker: StartBroker, database_url: str
) -> None:
    brokers = [start_broker(), start_broker()]
    urls = [broker.url for broker in brokers]
    queue, record = unique(), Record()
    await asyncio.gather(
        _producers(urls * (_PRODUCERS // 2), queue), _consumers(record, urls * 2, queue)
    )
    record.assert_complete(_PRODUCERS, _COUNT)
    await _assert_dense(database_url)


async def test_producers_inside_their_own_transactions_and_over_http_lose_nothing(
    start_broker: StartBroker, database_url: str
) -> None:
    broker, queue, record = start_broker(), unique(), Record()
    async with Wire(broker.url) as wire:
        # The queue exists before anybody holds its rows in a transaction.
        await wire.call("POST", "/api/v1/configure", {"queue": queue})
    await asyncio.gather(
        _producers([broker.url] * 4, queue),
        *(_push_by_sql(database_url, queue, producer) for producer in range(4, _PRODUCERS)),
        _consumers(record, [broker.url] * 2, queue),
    )
    record.assert_complete(_PRODUCERS, _COUNT)
    await _assert_dense(database_url)


async def _push_by_sql(database_url: str, queue: str, producer: int) -> None:
    """Push in long transactions of which some roll back and are made again."""
    chance = random.Random(producer)
    connection = await asyncpg.connect(database_url)
    try:
        numbers = list(range(_COUNT))
        while numbers:
            some = numbers[:_PUSHES_PER_TRANSACTION]
            transaction = connection.transaction()
            await transaction.start()
            for number in some:
                await connection.fetchval(
                    "SELECT queen.push($1, $2::json)", queue, json.dumps([producer, number])
                )
            if chance.random() < 0.1:
                await transaction.rollback()
            else:
                await transaction.commit()
                del numbers[: len(some)]
    finally:
        await connection.close()
