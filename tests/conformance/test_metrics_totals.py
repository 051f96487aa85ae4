"""Counts and labels that are easy to get wrong: stream cycles, odd queue names, spooled pushes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from tests.conformance.test_metrics import read
from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.stream_calls import new_query, out, put
from tests.support.waiting import wait_until_async

StartBroker = Callable[..., BrokerProcess]


async def test_acks_of_stream_cycles_are_in_the_totals(start_broker: StartBroker) -> None:
    first = start_broker()
    api = Api(first.url)
    query = await new_query(api, 1, 2, 3, 4)
    (one, two, three) = await query.pop(batch=3)
    place = one["partitionId"]
    done = await query.cycle(place, [put("a", 1)], [out(query.sink, 1)], three, count=3)
    assert done["ack_result"]["count"] == 3
    assert not (await query.cycle(place, [], [], two))["success"], "it is refused, not counted"
    (four,) = await query.pop(batch=3)
    dead = await query.cycle(place, [], [], four, status="failed")
    assert dead["ack_result"]["dlq"]
    told = await read(api)
    assert told["queen_messages_acked_total"] == 3
    assert told["queen_messages_failed_total"] == 1
    assert told["queen_messages_dead_lettered_total"] == 1
    assert told.get("queen_messages_retried_total", 0) == 0
    assert told["queen_messages_stored_total{path=stream}"] == 1
    assert told["queen_messages_pushed_total"] == 5
    await api.close()
    # It writes its minute when it stops; totals of all brokers come from there.
    first.stop()
    api = Api(start_broker().url)
    told = await read(api)
    assert told["queen_cluster_ack_total{result=success,scope=cluster}"] == 3
    assert told["queen_cluster_ack_total{result=failed,scope=cluster}"] == 1
    assert told["queen_cluster_dlq_total{scope=cluster}"] == 1
    ops = await _get(api, "analytics/queue-ops", queue=query.source)
    assert sum(point["ackSuccess"] for point in ops["series"]) == 3
    assert sum(point["ackFailed"] for point in ops["series"]) == 1
    await api.close()


async def _get(api: Api, path: str, **query: Any) -> Any:
    response: httpx.Response = await api.http.get(f"/api/v1/{path}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_queue_named_like_all_others_is_told_apart(start_broker: StartBroker) -> None:
    api = Api(start_broker(QUEEN_METRICS_QUEUES_MAX="2").url)
    # The two with the most to do have series of their own.
    for queue, count in (("_other", 9), ("__other", 8), (unique(), 3), (unique(), 2)):
        await api.push(queue, *range(count))
        assert await api.pop(queue, consumerGroup="g")
    told = await read(api)
    depths = {name: value for name, value in told.items() if name.startswith("queen_queue_depth{")}
    assert depths == {
        "queen_queue_depth{queue=__other}": 9,
        "queen_queue_depth{queue=___other}": 8,
        "queen_queue_depth{queue=_other}": 5,
    }
    await api.close()


async def test_the_latency_of_spooled_pushes_is_told(start_broker: StartBroker) -> None:
    api = Api(start_broker().url)
    queue = unique()
    path = "/api/v1/system/maintenance"
    assert (await api.http.post(path, json={"enabled": True})).status_code == 200
    for number in range(3):
        body = {"items": [{"queue": queue, "payload": number}]}
        response = await api.http.post("/api/v1/push", json=body)
        assert response.json()[0]["status"] == "buffered", response.text
    latency = "queen_spool_latency_seconds"
    assert (await read(api))[f"{latency}_count"] == 0
    assert (await api.http.post(path, json={"enabled": False})).status_code == 200

    async def are_stored() -> bool:
        return (await read(api))[f"{latency}_count"] == 3

    await wait_until_async(are_stored, timeout_s=SOON_S, what="the end of the spool")
    told = await read(api)
    assert told[f"{latency}_bucket{{le=+Inf}}"] == 3
    assert 0 < told[f"{latency}_sum"] < 3 * SOON_S
    assert told["queen_spool_oldest_seconds"] == 0
    assert await api.data(queue, batch=9) == [0, 1, 2]
    await api.close()
