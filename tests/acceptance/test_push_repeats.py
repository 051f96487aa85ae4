"""Repeated transaction ids at a broker that does not expect any: each is stored once, and every
answer names the message that was.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import asyncpg

from tests.acceptance.load import Wire, wires
from tests.support.broker import BrokerProcess, unique

StartBroker = Callable[..., BrokerProcess]


async def _push(wire: Wire, queue: str, *names: str | None, partition: str = "p") -> list[Any]:
    items = [
        {"queue": queue, "partition": partition, "payload": name}
        | ({} if name is None else {"transactionId": name})
        for name in names
    ]
    answer = await wire.call("POST", "/api/v1/push", {"items": items})
    assert answer.status == 201, answer
    results: list[Any] = answer.body
    return results


def _words(results: list[Any]) -> list[str]:
    return [one["status"] for one in results]


async def _stored(wire: Wire, queue: str) -> list[Any]:
    messages = await wire.pop(queue, batch=1000, autoAck=True)
    return [message["transactionId"] for message in messages]


async def test_an_id_that_is_stored_already(start_broker: StartBroker) -> None:
    queue = unique()
    async with Wire(start_broker().url) as wire:
        first = await _push(wire, queue, "a", "b")
        again = await _push(wire, queue, "c", "a", "d")
        assert _words(again) == ["queued", "duplicate", "queued"]
        assert again[1]["message_id"] == first[0]["message_id"]
        assert await _stored(wire, queue) == ["a", "b", "c", "d"]


async def test_an_id_that_stands_twice_in_a_request(start_broker: StartBroker) -> None:
    queue = unique()
    async with Wire(start_broker().url) as wire:
        results = await _push(wire, queue, "a", "b", "a", None)
        assert _words(results) == ["queued", "queued", "duplicate", "queued"]
        assert results[2]["message_id"] == results[0]["message_id"]
        assert len(await _stored(wire, queue)) == 3


async def test_an_id_that_is_the_message_id_of_a_message_without_one(
    start_broker: StartBroker,
) -> None:
    queue = unique()
    async with Wire(start_broker().url) as wire:
        (first,) = await _push(wire, queue, None)
        (again,) = await _push(wire, queue, first["message_id"])
        assert (again["status"], again["message_id"]) == ("duplicate", first["message_id"])
        assert await _stored(wire, queue) == [first["message_id"]]


async def test_producers_that_race_with_the_same_ids_at_two_brokers(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    queue, names = unique(), [f"id-{number}" for number in range(40)]
    urls = [start_broker().url, start_broker().url]
    answers: defaultdict[str, set[str]] = defaultdict(set)

    async def produce(wire: Wire, order: list[str]) -> None:
        for name in order:
            (result,) = await _push(wire, queue, name)
            answers[name].add(result["message_id"])

    async with wires(urls * 4) as several:
        orders = [names if number % 2 else names[::-1] for number in range(len(several))]
        await asyncio.gather(*map(produce, several, orders))
        rows = await database.fetch(
            "SELECT m.transaction_id, m.id::text, m.seq FROM queen.messages m"
            " JOIN queen.queues q ON q.id = m.queue_id WHERE q.name = $1 ORDER BY m.seq",
            queue,
        )
        assert {row[0]: {row[1]} for row in rows} == answers
        assert [row[2] for row in rows] == list(range(1, len(names) + 1))
        assert sorted(await _stored(several[0], queue)) == sorted(names)


async def test_a_repeat_is_no_matter_of_those_that_share_its_call(
    start_broker: StartBroker,
) -> None:
    queue, url = unique(), start_broker().url
    async with wires([url] * 20) as several:
        await _push(several[0], queue, "again")
        results = await asyncio.gather(
            *(
                _push(wire, queue, "again" if number % 5 == 0 else f"id-{number}")
                for number, wire in enumerate(several)
            )
        )
        words = [one["status"] for (one,) in results]
        assert words == ["queued" if number % 5 else "duplicate" for number in range(20)]
        assert len(await _stored(several[0], queue)) == 17
