"""Cycles without an ack close windows. They race with workers and with each other."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.conformance.shorthand import drain
from tests.support.broker import Api
from tests.support.stream_calls import Query, drop, new_query, out, put

WINDOW = {"acc": 1, "windowStart": 0, "windowEnd": 1000}


async def _with_window(api: Api, *payloads: Any) -> tuple[Query, str, list[Any]]:
    """A query with an open window, and what is left to pop."""
    query = await new_query(api, "first", *payloads)
    (first,) = await query.pop(batch=1)
    place = first["partitionId"]
    assert (await query.cycle(place, [put("w", WINDOW)], [], first))["success"]
    return query, place, list(payloads)


async def test_two_workers_never_both_close_a_window(api: Api) -> None:
    query, place, _ = await _with_window(api)
    for _ in range(2):
        assert await query.state(place, ripe_at_or_before=1000) == {"w": WINDOW}
    answers = await asyncio.gather(
        *(query.cycle(place, [drop("w")], [out(query.sink, {"by": n})]) for n in range(8))
    )
    assert sum(one["success"] for one in answers) == 1
    assert all("another worker" in one["error"] for one in answers if not one["success"])
    assert len(await drain(api, query.sink)) == 1


async def test_a_window_that_has_changed_since_it_was_read_is_not_closed(api: Api) -> None:
    query, place, _ = await _with_window(api, "late")
    assert await query.state(place) == {"w": WINDOW}
    (message,) = await query.pop()
    more = {**WINDOW, "acc": 2}
    assert (await query.cycle(place, [put("w", more)], [], message))["success"]
    flush = query.body(place, [drop("w")], [out(query.sink, WINDOW)])
    refused = await query.send(flush)
    assert "changed" in refused["error"]
    assert await query.state(place) == {"w": more}
    assert (await query.send(flush))["success"]
    assert await query.state(place) == {}


async def test_nobody_closes_windows_while_a_worker_has_the_partition(api: Api) -> None:
    query, place, _ = await _with_window(api, "next")
    assert await query.state(place, ripe_at_or_before=1000) == {"w": WINDOW}
    (message,) = await query.pop()
    assert await query.state(place, ripe_at_or_before=1000) == {}
    flush = query.body(place, [drop("w")], [out(query.sink, WINDOW)])
    assert "lease" in (await query.send(flush))["error"]
    # What the worker reads under its lease is not offered to a flush.
    assert await query.state(place) == {"w": WINDOW}
    assert (await query.cycle(place, [put("w", {**WINDOW, "acc": 2})], [], message))["success"]
    assert "changed" in (await query.send(flush))["error"]
    assert await api.pop(query.sink) == []


async def test_a_version_fences_exactly(api: Api) -> None:
    """Clients that say what they have seen are refused once anything has changed."""
    query, place, _ = await _with_window(api)
    ask = {"query_id": query.id, "partition_id": place}
    answer = (await api.http.post("/streams/v1/state/get", json=ask)).json()
    assert answer["version"] == 1
    bodies = [
        query.body(place, [put("n", n)], [out(query.sink, n)], state_version=1) for n in range(6)
    ]
    answers = await asyncio.gather(*(query.send(body) for body in bodies))
    assert sum(one["success"] for one in answers) == 1
    (winner,) = [n for n, one in enumerate(answers) if one["success"]]
    assert await query.state(place, keys=["n"]) == {"n": winner}
    assert await drain(api, query.sink) == [winner]
    assert (await query.send(bodies[winner])) == answers[winner]


async def test_a_flush_heeds_the_lease_of_the_query_whatever_group_it_names(api: Api) -> None:
    query = await new_query(api, 1, 2)
    (message, *_) = await query.pop(batch=1)
    place = message["partitionId"]
    assert (await query.cycle(place, [put("w", {"n": 1})], [], message))["success"]
    assert await query.state(place) == {"w": {"n": 1}}
    assert await query.pop(batch=1)
    for group in (query.group, None, "other"):
        flush = await query.cycle(place, [drop("w")], [], consumer_group=group)
        assert not flush["success"], f"a worker has a lease; the flush named {group}"
    assert await query.state(place) == {"w": {"n": 1}}


async def test_a_deleted_stream_leaves_the_cursors_of_others_alone(api: Api) -> None:
    query = await new_query(api, 1)
    assert await api.data(query.source, autoAck=True) == [1]
    (message,) = await query.pop()
    place = message["partitionId"]
    assert (await query.cycle(place, [put("w", 1)], [], message))["success"]
    await query.state(place)
    assert (await query.cycle(place, [drop("w")], [], consumer_group=None))["success"]
    deleted = await api.http.delete(f"/api/v1/streams/{query.name}")
    assert deleted.json()["consumerGroups"] == [query.group]
    assert await api.data(query.source, autoAck=True) == [], "queue mode has had its message"
