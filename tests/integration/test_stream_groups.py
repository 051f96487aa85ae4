"""Spark streams with a consumer group stand in the lists of groups, with the lag of the moment."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from queenmq.spark.database.sql_text import load
from tests.conformance.test_groups import GROUPS, consume, delete, entry, lagging, show
from tests.support.broker import Api, unique

_HORIZON = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"


@pytest.fixture
async def session(shared_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session on the shared broker's database."""
    connection = await asyncpg.connect(shared_database_url)
    yield connection
    await connection.close()


async def tell(
    session: asyncpg.Connection, group: str, *queues: str, query: str = "one", xid: str = ""
) -> str:
    """Publish a position as a stream does after a batch, now or at that transaction."""
    position = xid or await session.fetchval(_HORIZON)
    told = {
        "group": group,
        "query": query,
        "queues": json.dumps(queues),
        "xid": position,
        "lag": 0,
    }
    await session.execute(str(load("positions")["publish"]), json.dumps(told))
    return str(position)


async def age(session: asyncpg.Connection, queue: str, hours: int) -> None:
    await session.execute(
        "UPDATE queen.messages m SET created_at = m.created_at - make_interval(hours => $2)"
        " FROM queen.queues q WHERE q.id = m.queue_id AND q.name = $1",
        queue,
        hours,
    )


def kind_and_lag(element: Any) -> tuple[Any, ...]:
    return element["kind"], element["totalLag"], element["state"]


async def test_a_stream_is_listed_with_what_came_after_its_position(
    api: Api, session: asyncpg.Connection
) -> None:
    queue, group = unique(), unique("lake")
    await api.push(queue, 1, 2)
    await tell(session, group, queue)
    assert kind_and_lag(await entry(api, group, queue)) == ("spark", 0, "Stable")
    await api.push(queue, 3, 4, 5, partition="other")
    found = await entry(api, group, queue)
    assert kind_and_lag(found) == ("spark", 3, "Stable"), "though the stream has told nothing new"
    assert found["members"] == 1 and found["updatedAt"].endswith("Z")
    assert found["partitionsWithLag"] is None


async def test_a_stream_of_several_queues_has_an_element_for_each(
    api: Api, session: asyncpg.Connection
) -> None:
    first, second, group = unique(), unique(), unique("lake")
    await api.push(first, 1)
    await api.push(second, 1)
    await tell(session, group, first, second, "a queue that was deleted")
    await api.push(second, 2)
    assert kind_and_lag(await entry(api, group, first)) == ("spark", 0, "Stable")
    assert kind_and_lag(await entry(api, group, second)) == ("spark", 1, "Stable")
    response = await api.http.get(GROUPS)
    assert [one["queueName"] for one in response.json() if one["name"] == group] == sorted(
        [first, second]
    )


async def test_a_stream_that_has_stopped_lags(api: Api, session: asyncpg.Connection) -> None:
    queue, group = unique(), unique("lake")
    await api.push(queue, 0)
    await tell(session, group, queue)
    assert await lagging(api, queue, minLagSeconds=1) == []
    await api.push(queue, 1, 2)
    await age(session, queue, hours=2)
    assert kind_and_lag(await entry(api, group, queue)) == ("spark", 2, "Lagging")
    (line,) = await lagging(api, queue)
    assert (line["kind"], line["consumer_group"], line["offset_lag"]) == ("spark", group, 2)
    assert line["partition_name"] is None and line["lag_hours"] == pytest.approx(2, abs=0.1)


async def test_of_two_streams_the_one_that_is_behind_is_told(
    api: Api, session: asyncpg.Connection
) -> None:
    queue, group = unique(), unique("lake")
    behind = await session.fetchval(_HORIZON)
    await api.push(queue, 1, 2)
    await tell(session, group, queue, query="behind", xid=behind)
    await tell(session, group, queue, query="ahead")
    found = await entry(api, group, queue)
    assert (found["members"], found["totalLag"]) == (2, 2)
    streams = (await show(api, group))[queue]["streams"]
    assert {one["queryId"]: one["offsetLag"] for one in streams} == {"behind": 2, "ahead": 0}
    assert {one["position"] for one in streams} >= {behind}


async def test_consumers_and_streams_of_one_name_are_both_shown(
    api: Api, session: asyncpg.Connection
) -> None:
    queue, group = unique(), unique("both")
    await api.push(queue, 1)
    assert await consume(api, queue, group) == [1]
    await tell(session, group, queue)
    response = await api.http.get(GROUPS)
    found = [one for one in response.json() if (one["name"], one["queueName"]) == (group, queue)]
    assert sorted(one["kind"] for one in found) == ["consumer", "spark"]
    shown = (await show(api, group))[queue]
    assert len(shown["partitions"]) == 1 and len(shown["streams"]) == 1


async def test_deleting_a_group_forgets_its_streams(api: Api, session: asyncpg.Connection) -> None:
    queue, group, other = unique(), unique("lake"), unique("lake")
    await api.push(queue, 1)
    for name in (group, other):
        await tell(session, name, queue)
    assert (await delete(api, group))["deletedStreams"] == 1
    assert await entry(api, group, queue) is None
    assert await show(api, group) == {}
    assert await entry(api, other, queue) is not None
