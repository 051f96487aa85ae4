"""From a queue through windows into a queue, each message once, whatever is killed on the way."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from queenmq.storage.sql_files import load_queries
from tests.support.broker import SOON_S, BrokerProcess
from tests.support.producers import Producers
from tests.support.staging import staged
from tests.support.stream_driver import Driver
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

KILLS = 5
#: Windows are by the time of the push, but for the last message, which ends all of them.
STREAM = """
name = "sums"
checkpoint = "checkpoint"
key = "partition"
trigger = "100 ms"

[source]
queue = "numbers"

[fields]
value = "$ bigint"

[window]
type = "tumbling"
size = "1 second"
time = "CASE WHEN value > 1000000 THEN timestamp_seconds(value) ELSE created_at END"
watermark = "2 seconds"

[aggregations]
messages = "count(*)"
total = "sum(value)"

[sink]
queue = "sums"

[late]
queue = "sums.late"
"""
_PUSH = "SELECT queen.push('numbers', $1::json, partition => $2)"
_STORED = """
    SELECT p.name AS partition, m.payload::text AS payload,
           floor(extract(epoch FROM m.created_at))::bigint AS second
    FROM queen.messages m
    JOIN queen.partitions p ON p.id = m.partition_id
    JOIN queen.queues q ON q.id = m.queue_id
    WHERE q.name = $1
    ORDER BY p.name, m.seq
"""
Look = Callable[[asyncpg.Connection, Path], Awaitable[Any]]


def _asking(question: str) -> Look:
    async def look(database: asyncpg.Connection, checkpoint: Path) -> Any:
        return await database.fetchval(question)

    return look


def _planned_in(checkpoint: Path) -> int:
    """The number of the last batch that was planned."""
    return max((int(file.name) for file in (checkpoint / "offsets").glob("[0-9]*")), default=-1)


async def _planned(_: asyncpg.Connection, checkpoint: Path) -> int:
    return _planned_in(checkpoint)


_PUBLISHING = (
    "SELECT count(*) FROM pg_stat_activity WHERE state = 'active'"
    " AND query LIKE '%FROM queen.publish_staged%' AND pid <> pg_backend_pid()"
)
#: When a driver is killed: as soon as one of these has grown.
MOMENTS: dict[str, Look] = {
    "a batch was planned": _planned,
    "rows are staged": _asking(
        "SELECT coalesce(extract(epoch FROM max(created_at)), 0) FROM queen.spark_staging"
    ),
    "a batch is being published": _asking(_PUBLISHING),
    "a batch was published": _asking("SELECT coalesce(max(batch_id), -1) FROM queen.spark_commits"),
}


async def _plans_a_batch(driver: Driver, checkpoint: Path) -> None:
    before = _planned_in(checkpoint)
    await driver.begin()

    def is_planned() -> bool:
        assert not driver.is_done(), driver.last_words()
        return _planned_in(checkpoint) > before

    await wait_until_async(is_planned, timeout_s=120, what="a batch")


async def _kill_when(
    moment: str, driver: Driver, database: asyncpg.Connection, checkpoint: Path
) -> None:
    before = await MOMENTS[moment](database, checkpoint)

    async def is_time() -> bool:
        assert not driver.is_done(), driver.last_words()
        return bool(await MOMENTS[moment](database, checkpoint) > before)

    await wait_until_async(is_time, timeout_s=120, what=moment)
    driver.kill()

    async def is_quiet() -> bool:
        return not await database.fetchval(_PUBLISHING)

    # A server goes on with what it was asked, though nobody is there to hear the end of it.
    await wait_until_async(is_quiet, timeout_s=SOON_S, what="the last publication to end")


@asynccontextmanager
async def _long_transaction(url: str, number: int) -> AsyncIterator[None]:
    """Messages that become visible long after they were pushed; every other time never."""
    session = await asyncpg.connect(url)
    try:
        transaction = session.transaction()
        await transaction.start()
        for value in range(1, 4):
            await session.execute(_PUSH, str(value), f"long{number}")
        yield
        await (transaction.rollback() if number % 2 else transaction.commit())
    finally:
        await session.close()


async def _sums(database: asyncpg.Connection) -> tuple[Counter[Any], Counter[Any]]:
    """Messages and totals by partition and second: of the source; of results and late ones."""
    source: Counter[Any] = Counter()
    for row in await database.fetch(_STORED, "numbers"):
        source[row["partition"], row["second"], "messages"] += 1
        source[row["partition"], row["second"], "total"] += int(row["payload"])
    results: Counter[Any] = Counter()
    seen: list[tuple[str, str]] = []
    for row in await database.fetch(_STORED, "sums"):
        payload = json.loads(row["payload"])
        window = (payload["key"], payload["window_start"])
        assert window not in seen, "a window came out twice"
        assert row["partition"] == payload["key"]
        seen.append(window)
        second = await database.fetchval(
            "SELECT extract(epoch FROM $1::text::timestamptz)::bigint", payload["window_start"]
        )
        results[payload["key"], second, "messages"] += payload["messages"]
        results[payload["key"], second, "total"] += payload["total"]
    assert seen == sorted(seen), "windows of a partition come in their order"
    for row in await database.fetch(_STORED, "sums.late"):
        letter = json.loads(row["payload"])
        assert letter["reason"] == "late", letter
        second = await database.fetchval(
            "SELECT floor(extract(epoch FROM $1::text::timestamptz))::bigint", letter["created_at"]
        )
        results[letter["partition"], second, "messages"] += 1
        results[letter["partition"], second, "total"] += letter["payload"]
    return source, results


async def _finish(driver: Driver) -> None:
    await driver.begin()
    await wait_until_async(driver.is_done, timeout_s=240, what="the stream to end")
    assert driver.process.returncode == 0, driver.last_words()


@pytest.mark.jobs
async def test_windows_of_a_stream_that_is_killed_again_and_again_hold_each_message_once(
    start_broker: Callable[..., BrokerProcess],
    database_url: str,
    database: asyncpg.Connection,
    tmp_path: Path,
) -> None:
    file, checkpoint = tmp_path / "sums.toml", tmp_path / "checkpoint"
    file.write_text(STREAM)
    urls = [start_broker().url, start_broker().url]
    drivers = [Driver(file, database_url)]
    try:
        async with Producers(urls, "numbers", 4, pause_s=0.02) as producers:
            await producers.more()
            moments = random.sample([*MOMENTS, *MOMENTS], KILLS)
            for number, moment in enumerate(moments):
                drivers.append(Driver(file, database_url, is_once=number == KILLS - 1))
                await producers.more(10)
                async with _long_transaction(database_url, number):
                    # A batch that ends where the open transaction begins.
                    await _plans_a_batch(drivers[-2], checkpoint)
                await _kill_when(moment, drivers[-2], database, checkpoint)
            await producers.more()
            await producers.stop()
        end = await database.fetchval("SELECT floor(extract(epoch FROM now()))::bigint + 1800")
        await database.execute(_PUSH, str(end), "the end")
        await _finish(drivers[-1])
    finally:
        for driver in drivers:
            driver.kill()
    source, results = await _sums(database)
    source = Counter({place: n for place, n in source.items() if place[0] != "the end"})
    assert results == source
    assert sum(n for place, n in source.items() if place[2] == "messages") == (
        sum(producers.answered) + 3 * ((KILLS + 1) // 2)
    )
    while await database.fetchval(load_queries("admin")["sweep_staged"], 0, 5_000):
        pass
    assert await staged(database) == 0
