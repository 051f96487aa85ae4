"""A cycle: state, pushes and the ack of a partition, all of it or nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.conformance.shorthand import drain, let_lease_run_out, next_of
from tests.support.broker import Api, unique
from tests.support.stream_calls import drop, new_query, out, put


async def test_a_cycle_commits_state_pushes_and_ack(api: Api) -> None:
    query = await new_query(api, 1, 2, 3)
    messages = await query.pop()
    place = messages[0]["partitionId"]
    pushes = [out(query.sink, {"n": n}, transactionId=f"t{n}") for n in range(3)]
    done = await query.cycle(
        place, [put("a", {"x": 1}), put("b", None), drop("gone")], pushes, messages[-1], count=3
    )
    assert done["success"]
    assert (done["query_id"], done["partition_id"]) == (query.id, place)
    assert (done["queueName"], done["state_ops_applied"]) == (query.source, 3)
    assert [one["status"] for one in done["push_results"]] == ["queued"] * 3
    assert [one["transaction_id"] for one in done["push_results"]] == ["t0", "t1", "t2"]
    ack = {"success": True, "count": 3, "lease_released": True, "dlq": False}
    assert done["ack_result"] == ack
    assert await query.state(place) == {"a": {"x": 1}, "b": None}
    assert await drain(api, query.sink) == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert await query.pop() == []
    shown = await query.show()
    assert (shown["stateKeys"], shown["cycles"], shown["totalLag"]) == (2, 1, 0)
    assert shown["stateBytes"] == len("a") + len('{"x":1}') + len("b") + len("null")
    assert (shown["consumerGroup"], shown["lastError"]) == (query.group, None)


async def test_state_is_read_by_key_prefix_and_ripeness(api: Api) -> None:
    query = await new_query(api, 1)
    (message,) = await query.pop()
    place = message["partitionId"]
    rows = {
        "w\x1f1": {"acc": 1, "windowEnd": 1000},
        "w\x1f2": {"acc": 2, "windowEnd": 2000.5},
        "w\x1fno": {"windowEnd": "1000"},
        "w\x1ftrue": {"windowEnd": True},
        "w\x1flist": [{"windowEnd": 1}],
        "x\x1f1": {"windowEnd": -5},
        "é%_": "\u0000 and 1e400 stay text",
    }
    done = await query.cycle(place, [put(key, value) for key, value in rows.items()], [], message)
    assert done["success"], done
    assert await query.state(place) == rows
    assert list(await query.state(place)) == sorted(rows)
    assert await query.state(place, keys=["é%_", "w\x1f1", "none"]) == {
        key: rows[key] for key in ("w\x1f1", "é%_")
    }
    assert set(await query.state(place, key_prefix="w\x1f", ripe_at_or_before=1999)) == {"w\x1f1"}
    assert set(await query.state(place, ripe_at_or_before=2001)) == {"w\x1f1", "w\x1f2", "x\x1f1"}
    assert await query.state(place, key_prefix="w%") == {}
    other = await new_query(api)
    assert await other.state(place) == {}


async def test_the_last_operation_on_a_key_holds_and_sizes_are_kept(api: Api) -> None:
    query = await new_query(api, 1)
    (message,) = await query.pop()
    place = message["partitionId"]
    ops = [put("a", "x" * 50), drop("a"), put("a", 1), put("b", 2), drop("b")]
    assert (await query.cycle(place, ops, [], message))["state_ops_applied"] == 2
    assert await query.state(place) == {"a": 1}
    shown = await query.show()
    assert (shown["stateKeys"], shown["stateBytes"]) == (1, 2)
    assert (await query.cycle(place, [put("a", "longer"), put("c", 3)]))["success"]
    assert (await query.cycle(place, [drop("a"), drop("none")]))["success"]
    shown = await query.show()
    assert (shown["stateKeys"], shown["stateBytes"], shown["cycles"]) == (1, 2, 3)


async def test_refused_cycles_change_nothing(api: Api) -> None:
    """Each way to be refused, one after the other on one partition."""
    query = await new_query(api, 1, 2, leaseTime=1)
    messages = await query.pop()
    place = messages[0]["partitionId"]
    ops, pushes = [put("a", 1)], [out(query.sink, "never")]
    other = await new_query(api, "elsewhere")
    (foreign,) = await other.pop()
    wrong_lease = {**messages[1], "leaseId": foreign["leaseId"]}
    odd_lease = {**messages[1], "leaseId": "no uuid"}
    unknown = {**messages[1], "transactionId": "unknown"}
    for ack, more, word in [
        (wrong_lease, {}, "lease"),
        (odd_lease, {}, "lease"),
        (unknown, {}, "not found"),
        (messages[1], {"status": "retry"}, "completed, failed, dlq"),
        (messages[1], {"state_version": 7}, "read it again"),
        (messages[1], {"query_id": place}, "register"),
        (messages[1], {"consumer_group": "another"}, "lease"),
        (foreign, {"partition_id": query.id}, "does not exist"),
    ]:
        refused = await query.cycle(place, ops, pushes, ack, **more)
        assert not refused["success"], (word, refused)
        assert word in refused["error"], (word, refused)
    await let_lease_run_out(api)
    refused = await query.cycle(place, ops, pushes, messages[1])
    assert "lease" in refused["error"]
    again = await query.pop()
    assert [one["data"] for one in again] == [1, 2]
    refused = await query.cycle(place, ops, pushes, messages[1])
    assert "lease" in refused["error"]
    assert await query.state(place) == {}
    assert await api.pop(query.sink) == []
    assert (await query.cycle(place, [], [], again[1]))["success"]


async def test_a_full_sink_refuses_the_cycle_and_nobody_else(api: Api) -> None:
    full = unique("full")
    await api.configure(full, maxSize=2)
    queries = [await new_query(api, 1) for _ in range(8)]
    popped = [(await query.pop())[0] for query in queries]
    bodies = [
        query.body(
            one["partitionId"],
            [put("k", n)],
            [out(full if n % 4 == 1 else query.sink, n, partition=f"p{m}") for m in range(3)],
            one,
        )
        for n, (query, one) in enumerate(zip(queries, popped, strict=True))
    ]
    answers = await asyncio.gather(
        *(query.send(body) for query, body in zip(queries, bodies, strict=True))
    )
    assert [one["success"] for one in answers] == [n % 4 != 1 for n in range(8)]
    assert "full" in answers[1]["error"]
    for n, (query, one) in enumerate(zip(queries, popped, strict=True)):
        assert await query.state(one["partitionId"]) == ({} if n % 4 == 1 else {"k": n})
        assert len(await drain(api, query.sink)) == (0 if n % 4 == 1 else 3)
    assert await drain(api, full) == []


async def test_a_conflict_or_bad_data_of_one_client_fails_no_other(api: Api) -> None:
    """Cycles that arrive together share calls; those at fault fail alone."""
    queries = [await new_query(api, 1) for _ in range(12)]
    popped = [(await query.pop())[0] for query in queries]

    async def send(n: int) -> Any:
        query, one = queries[n], popped[n]
        ack = {**one, "leaseId": queries[0].id} if n % 3 == 1 else one
        body = query.body(one["partitionId"], [put("k", n)], [out(query.sink, n)], ack)
        if n % 3 == 2:
            # Valid for a JSON parser, refused by PostgreSQL.
            body["state_ops"] = [{"type": "upsert", "key": "k", "value": "\ud800"}]
        # In ASCII: half a pair cannot be encoded otherwise.
        return await api.http.post("/streams/v1/cycle", content=json.dumps(body).encode())

    answers = await asyncio.gather(*(send(n) for n in range(12)))
    for n, answer in enumerate(answers):
        assert answer.status_code == (400 if n % 3 == 2 else 200), answer.text
        if n % 3 != 2:
            assert answer.json()["success"] is (n % 3 == 0)
        stored = await queries[n].state(popped[n]["partitionId"])
        assert stored == ({"k": n} if n % 3 == 0 else {})
        assert await drain(api, queries[n].sink) == ([n] if n % 3 == 0 else [])


async def test_a_cycle_that_is_sent_again_is_applied_once(api: Api) -> None:
    query = await new_query(api, 1, 2)
    messages = await query.pop()
    place = messages[0]["partitionId"]
    body = query.body(place, [put("n", 1)], [out(query.sink, "a"), out(query.sink, "b")],
                      messages[0], release_lease=False)  # fmt: skip
    answers = [await query.send(body) for _ in range(2)]
    answers += await asyncio.gather(*(query.send(body) for _ in range(4)))
    assert answers[0]["success"]
    assert answers[1:] == answers[:1] * 5
    assert await drain(api, query.sink) == ["a", "b"]
    # A flush has no lease to fence it.
    assert (await query.cycle(place, [put("n", 2)], [], messages[1]))["success"]
    assert await query.state(place) == {"n": 2}
    flush = query.body(place, [drop("n")], [out(query.sink, "closed")])
    answers = await asyncio.gather(*(query.send(flush) for _ in range(4)))
    assert answers[0]["success"]
    assert answers == answers[:1] * 4
    # What was committed before the last one is refused by its lease.
    assert not (await query.send(body))["success"]
    assert await drain(api, query.sink) == ["closed"]


async def test_pushes_of_a_cycle_are_deduplicated_and_wake_consumers(api: Api) -> None:
    query = await new_query(api, 1)
    (message,) = await query.pop()
    await api.push(query.sink, "first", partition="p", transactionId="same")
    (stored,) = await api.pop(query.sink)
    await api.ack(stored)
    waiting = asyncio.create_task(next_of(api, query.sink))
    pushes = [out(query.sink, "again", transactionId="same"), out(query.sink, "new")]
    done = await query.cycle(message["partitionId"], [], pushes, message)
    assert [one["status"] for one in done["push_results"]] == ["duplicate", "queued"]
    assert done["push_results"][0]["message_id"] == stored["id"]
    assert [one["data"] for one in await waiting] == ["new"]


async def test_a_partial_ack_keeps_partition_and_order(api: Api) -> None:
    query = await new_query(api, *range(5), leaseTime=1)
    messages = await query.pop()
    place = messages[0]["partitionId"]
    done = await query.cycle(place, [], [], messages[1], count=2, release_lease=False)
    assert not done["ack_result"]["lease_released"]
    assert await query.pop() == []
    later = await query.cycle(place, [], [], messages[2], release_lease=False)
    assert later["success"]
    rest = await next_of(api, query.source, consumerGroup=query.group, batch=10)
    assert [one["data"] for one in rest] == [3, 4]
    # Released early, the rest comes at once.
    done = await query.cycle(place, [], [], rest[0])
    assert done["ack_result"]["lease_released"]
    (last,) = await query.pop()
    assert last["data"] == 4
    done = await query.cycle(place, [], [], last, status="dlq", error="given up")
    assert done["ack_result"] == {
        "success": True, "count": 1, "lease_released": True, "dlq": True,
    }  # fmt: skip
    assert [one["data"] for one in await api.dead_letters(query.source)] == [4]


async def test_a_released_partition_wakes_the_next_worker(api: Api) -> None:
    query = await new_query(api, 1, 2)
    (message,) = await query.pop(batch=1)
    waiting = asyncio.create_task(next_of(api, query.source, consumerGroup=query.group))
    assert (await query.cycle(message["partitionId"], [], [], message))["success"]
    assert [one["data"] for one in await waiting] == [2]


async def test_an_ack_without_a_lease_after_a_seek_is_no_repeat(api: Api) -> None:
    query = await new_query(api, 1)
    (message,) = await query.pop()
    body = query.body(message["partitionId"], [put("a", 1)], [], {**message, "leaseId": None})
    assert (await query.send(body))["success"]
    path = f"/api/v1/consumer-groups/{query.group}/queues/{query.source}/seek"
    moved = await api.http.post(path, json={"timestamp": "2020-01-01T00:00:00Z"})
    assert moved.status_code == 200, moved.text
    assert len(await query.pop()) == 1
    assert (await query.send(body))["success"]
    assert await query.pop() == [] and (await query.show())["totalLag"] == 0
