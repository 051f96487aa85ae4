"""Producers, brokers, PostgreSQL and a stream on a cluster, all of which are killed for a while.

QUEEN_TEST_SOAK_SECONDS says how long (60; take 600 before a release), QUEEN_TEST_SOAK_RATE how many
messages a second, and QUEEN_TEST_SOAK_SEED repeats a run.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, defaultdict
from pathlib import Path

import asyncpg
import pytest
from pyspark.sql import SparkSession

from tests.support.archive import archived, live, run_archive
from tests.support.feed import Feed
from tests.support.own_postgres import OwnPostgres
from tests.support.soak_driver import SOURCE, TARGET
from tests.support.soak_world import END_S, SEED, World, load
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.jobs, pytest.mark.slow, pytest.mark.timeout(3_600)]

_MAKE = "SELECT FROM queen.ensure_partitions(ARRAY[$1::text], ARRAY['p0'], NULL)"
_STORED = """
    SELECT p.name AS partition, (m.payload::text)::bigint AS n
    FROM queen.messages m JOIN queen.partitions p ON p.id = m.partition_id
    JOIN queen.queues q ON q.id = m.queue_id
    WHERE q.name = $1 ORDER BY p.name, m.seq
"""


async def _drained(url: str) -> bool:
    """Whether all that was answered 202 is stored."""
    connection = await asyncpg.connect(url)
    try:
        return not await connection.fetchval(
            "SELECT count(*) FROM queen.operation_queue WHERE is_blocking"
        )
    finally:
        await connection.close()


def _stored(feed: Feed, queue: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for row in feed.rows(_STORED, queue):
        found[row["partition"]].append(row["n"])
    return dict(found)


def test_nothing_is_lost_doubled_or_out_of_order(
    spark: SparkSession, server: OwnPostgres, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    pushed: Counter[str] = Counter()
    with Feed(server.url) as feed:
        feed.execute(_MAKE, SOURCE)
    world = World(server, tmp_path / "checkpoint", chance)
    try:
        asyncio.run(load(world, pushed, chance))
        expected = {name: list(range(count)) for name, count in pushed.items()}
        with Feed(server.url) as feed:
            # Queued operations, and what a broker kept on disk while the server was away.
            wait_until(
                lambda: asyncio.run(_drained(server.url)) and _stored(feed, SOURCE) == expected,
                timeout_s=END_S,
                what="everything that was answered to be stored, in order",
            )
            world.finish()
            assert _stored(feed, TARGET) == expected, f"seed {SEED}, kills {world.kills}"
            lake = str(tmp_path / "lake")
            assert run_archive(spark, server.url, lake).is_ok
            assert archived(spark, lake) == live(feed)
    finally:
        world.close()
    print(json.dumps({"messages": pushed.total(), "kills": world.kills, "seed": SEED}))
