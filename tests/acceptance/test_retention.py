"""Retention by running brokers: rules from the API, counters, two brokers and traffic at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest

from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.retention import age
from tests.support.waiting import wait_until_async

_ROUTE = "/api/v1/analytics/retention"
_OFTEN = {"QUEEN_RETENTION_INTERVAL_S": "1"}


@pytest.fixture
async def apis(start_broker: Callable[..., BrokerProcess]) -> AsyncIterator[list[Api]]:
    """Two brokers that look every second."""
    async with AsyncExitStack() as stack:
        opened = [Api(start_broker(**_OFTEN).url) for _ in range(2)]
        for one in opened:
            stack.push_async_callback(one.close)
        yield opened


async def _series(api: Api) -> dict[str, float]:
    """Removed messages by rule, of one process."""
    text = (await api.http.get("/metrics/prometheus")).text
    name = 'queen_retention_messages_total{rule="'
    lines = [line.removeprefix(name) for line in text.splitlines() if line.startswith(name)]
    return {rule: float(value) for rule, value in (line.split('"} ') for line in lines)}


async def test_rules_of_the_api_are_carried_out_and_counted(
    apis: list[Api], database: asyncpg.Connection
) -> None:
    old, done, late, kept = (unique(name) for name in ("old", "done", "late", "kept"))
    await apis[0].configure(old, retentionEnabled=True, retentionSeconds=100)
    await apis[0].configure(done, retentionEnabled=True, completedRetentionSeconds=100)
    await apis[0].configure(late, maxWaitTimeSeconds=100)
    await apis[0].configure(
        kept, retentionEnabled=True, retentionSeconds=100, archiveBeforeDelete=True
    )
    for queue in (old, done, late, kept):
        for number in (1, 2):
            await apis[0].push(queue, number)
    assert await apis[0].data(done, batch=1, autoAck="true") == [1]
    for row in await database.fetch("SELECT id FROM queen.partitions"):
        await age(database, row["id"])

    async def left() -> int:
        count: int = await database.fetchval("SELECT count(*) FROM queen.messages")
        return count

    async def is_done() -> bool:
        return await left() == 3

    await wait_until_async(is_done, timeout_s=SOON_S, what="old messages to go")
    answer = (await apis[1].http.get(_ROUTE)).json()
    counts = {"retentionMsgs": 2, "completedRetentionMsgs": 1, "evictionMsgs": 2, "totalMsgs": 5}
    assert counts.items() <= answer["totals"].items()
    assert sum(point["totalMsgs"] for point in answer["series"]) == 5
    of_one = (await apis[1].http.get(_ROUTE, params={"queue": late})).json()
    assert of_one["totals"]["totalMsgs"] == of_one["totals"]["evictionMsgs"] == 2
    sums = [await _series(api) for api in apis]
    assert {rule: sums[0][rule] + sums[1][rule] for rule in sums[0]} == {
        "retention": 2,
        "completed": 1,
        "eviction": 2,
    }
    assert await apis[0].data(kept, batch=5) == [1, 2]


async def test_dead_letters_go_after_their_time_and_history_after_a_month(
    apis: list[Api], database: asyncpg.Connection
) -> None:
    old, kept = unique("old"), unique("kept")
    await apis[0].configure(old, retentionEnabled=True, retentionSeconds=100)
    await apis[0].configure(kept, retentionEnabled=True, completedRetentionSeconds=100)
    for queue in (old, kept):
        await apis[0].push(queue, queue)
        await apis[0].ack(*await apis[0].pop(queue), status="dlq")
    await apis[0].push(old, "young")
    await database.execute(
        "UPDATE queen.dead_letter_queue SET failed_at = failed_at - interval '200 s'"
    )
    await apis[0].ack(*await apis[0].pop(old), status="dlq")
    await database.execute(
        "INSERT INTO queen.retention_history (bucket, queue_id) VALUES"
        " (now() - interval '31 days', gen_random_uuid()), (now(), gen_random_uuid())"
    )

    async def is_swept() -> bool:
        return await database.fetchval("SELECT count(*) FROM queen.retention_history") == 1

    await wait_until_async(is_swept, timeout_s=SOON_S, what="the history to be swept")
    assert [letter["data"] for letter in await apis[1].dead_letters(old)] == ["young"]
    assert [letter["data"] for letter in await apis[1].dead_letters(kept)] == [kept]


async def test_nothing_is_lost_while_two_brokers_remove_what_was_consumed(
    apis: list[Api], database: asyncpg.Connection
) -> None:
    queue = unique()
    await apis[0].configure(queue, retentionEnabled=True, completedRetentionSeconds=1)
    sent = 200
    got: dict[str, list[Any]] = {"a": [], "b": []}

    async def produce(api: Api, name: str) -> None:
        for number in range(sent // 2):
            await api.push(queue, [name, number], partition=f"p{number % 4}")

    async def consume(api: Api, group: str) -> None:
        while len(got[group]) < sent:
            for message in await api.pop(
                queue, consumerGroup=group, batch=20, wait="true", timeout=1000
            ):
                got[group].append(tuple(message["data"]))
                (answer,) = await api.ack(message, group=group)
                assert answer["success"], answer

    async with asyncio.timeout(60):
        await asyncio.gather(
            produce(apis[0], "x"),
            produce(apis[1], "y"),
            consume(apis[0], "a"),
            consume(apis[1], "b"),
        )

    async def is_empty() -> bool:
        return await database.fetchval("SELECT count(*) FROM queen.messages") == 0

    await wait_until_async(is_empty, timeout_s=SOON_S, what="consumed messages to go")
    for group in ("a", "b"):
        assert len(got[group]) == len(set(got[group])) == sent
    totals = (await apis[0].http.get(_ROUTE)).json()["totals"]
    assert totals["completedRetentionMsgs"] == totals["totalMsgs"] == sent


@pytest.mark.parametrize(
    ("query", "word"),
    [({"from": "then"}, "from"), ({"to": "now"}, "to"), ({"from": "2030-01-01"}, "from")],
)
async def test_a_time_range_that_is_none_is_refused(
    api: Api, query: dict[str, str], word: str
) -> None:
    response = await api.http.get(_ROUTE, params=query)
    assert response.status_code == 400
    assert response.json()["error"].startswith(word)


@pytest.mark.parametrize(
    ("start", "minutes"),
    [("2024-01-02T23:30", 1), ("2024-01-02T20:00", 5), ("2024-01-02", 15), ("2024-01-01", 60)],
)
async def test_points_get_wider_with_the_range(api: Api, start: str, minutes: int) -> None:
    query = {"from": start, "to": "2024-01-03"}
    answer = (await api.http.get(_ROUTE, params=query)).json()
    assert answer["bucketMinutes"] == minutes
    assert answer["series"] == [] and answer["totals"]["eventCount"] == 0
