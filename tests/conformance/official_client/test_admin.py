"""Consumer groups and resources through the official client."""

from __future__ import annotations

from typing import Any

from queen import Queen

from tests.support.broker import unique

LONG_AGO = "2001-01-01T00:00:00Z"


async def _push(client: Queen, queue: str, count: int) -> None:
    for n in range(count):
        await client.queue(queue).partition(f"p{n}").push([{"data": n}])


async def _consume(client: Queen, queue: str, group: str) -> list[int]:
    """Pop and ack until there is nothing left."""
    found = []
    while messages := await client.queue(queue).group(group).batch(10).wait(False).pop():
        found += [message["data"] for message in messages]
        await client.ack(messages, True, {"group": group})
    return sorted(found)


async def test_seek_brings_ten_partitions_again(client: Queen) -> None:
    queue, group = unique(), unique("group")
    await _push(client, queue, 10)
    assert await _consume(client, queue, group) == list(range(10))
    answer = await client.admin.seek_consumer_group(group, queue, {"timestamp": LONG_AGO})
    assert (answer["success"], answer["partitionsUpdated"]) == (True, 10)
    assert await _consume(client, queue, group) == list(range(10))
    await client.admin.seek_consumer_group(group, queue, {"timestamp": LONG_AGO})
    await client.admin.seek_consumer_group(group, queue, {"toEnd": True})
    assert await _consume(client, queue, group) == []


async def test_deleted_group_gets_everything_again(client: Queen) -> None:
    queue, group = unique(), unique("group")
    await client.delete_consumer_group(group)
    await _push(client, queue, 3)
    assert await _consume(client, queue, group) == [0, 1, 2]
    assert (await client.delete_consumer_group(group))["deletedPartitions"] == 3
    assert await _consume(client, queue, group) == [0, 1, 2]
    answer = await client.admin.delete_consumer_group_for_queue(group, queue)
    assert answer["deletedPartitions"] == 3
    assert await _consume(client, queue, group) == [0, 1, 2]


async def test_groups_are_listed_shown_and_asked_for_their_lag(client: Queen) -> None:
    queue, group = unique(), unique("group")
    await _push(client, queue, 2)
    await _consume(client, queue, group)
    await _push(client, queue, 1)
    groups = [one for one in await client.admin.list_consumer_groups() if one["name"] == group]
    assert [(one["members"], one["partitionsWithLag"]) for one in groups] == [(2, 1)]
    assert set(await client.admin.get_consumer_group(group)) == {queue}
    behind = await client.admin.get_lagging_consumers(0)
    assert [one["partition_name"] for one in behind if one["queue_name"] == queue] == ["p0"]
    assert queue not in {one["queue_name"] for one in await client.admin.get_lagging_consumers()}


async def test_start_of_a_group_can_be_changed(client: Queen) -> None:
    queue, group = unique(), unique("group")
    builder = client.queue(queue).group(group).subscription_mode("new").wait(False)
    assert await builder.pop() == []
    answer = await client.update_consumer_group_timestamp(group, LONG_AGO)
    assert (answer["success"], answer["rowsUpdated"]) == (True, 1)


async def test_queues_namespaces_and_tasks_are_listed(client: Queen) -> None:
    namespace, task = unique("namespace"), unique("task")
    queue = f"{namespace}.{task}"
    await _push(client, queue, 2)
    listed = await client.admin.list_queues(limit=10, search=queue)
    assert [(one["name"], one["partitions"]) for one in listed["queues"]] == [(queue, 2)]
    assert (await client.admin.get_queue(queue))["totals"]["pending"] == 2
    spaces = (await client.admin.get_namespaces())["namespaces"]
    assert namespace in {one["namespace"] for one in spaces}
    assert task in {one["task"] for one in (await client.admin.get_tasks())["tasks"]}


async def test_messages_are_inspected_deleted_buried_and_retried(client: Queen) -> None:
    queue = unique()
    for name in ("gone", "dead", "kept"):
        await client.queue(queue).partition("p").push([{"transactionId": name, "data": name}])
    listed = (await client.admin.list_messages(queue=queue, limit=10))["messages"]
    assert [one["transactionId"] for one in listed] == ["kept", "dead", "gone"]
    place = listed[0]["partitionId"]
    assert (await client.admin.get_message(place, "dead"))["payload"] == "dead"
    assert (await client.admin.delete_message(place, "gone"))["success"]
    assert (await client.admin.move_message_to_dlq(place, "dead"))["success"]
    letters = await client.queue(queue).dlq().limit(5).get()
    assert [one["transactionId"] for one in letters["messages"]] == ["dead"]
    assert (await client.admin.retry_message(place, "dead"))["success"]
    messages = await client.queue(queue).batch(10).wait(False).pop()
    assert [message["data"] for message in messages] == ["kept", "dead"]


async def test_handler_records_a_trace_with_two_names(client: Queen) -> None:
    queue, names = unique(), [unique("name"), unique("name")]
    await client.queue(queue).push([{"data": 1}])
    answers = []

    async def handle(message: dict[str, Any]) -> None:
        entry = {"traceName": names, "eventType": "step", "data": {"n": 1}}
        answers.append(await message["trace"](entry))

    await client.queue(queue).limit(1).consume(handle)
    assert [answer["success"] for answer in answers] == [True]
    (one,) = (await client.admin.get_traces_by_name(names[0], limit=5))["traces"]
    assert (one["data"], one["trace_names"]) == ({"n": 1}, sorted(names))
    same = await client.admin.get_traces_for_message(one["partition_id"], one["transaction_id"])
    assert [trace["id"] for trace in same["traces"]] == [one["id"]]
    listed = (await client.admin.get_trace_names(limit=10))["trace_names"]
    assert set(names) <= {trace["trace_name"] for trace in listed}


async def test_overview_status_and_analytics_are_answered(client: Queen) -> None:
    queue = unique()
    await _push(client, queue, 2)
    assert (await client.admin.refresh_consumer_stats())["success"]
    assert (await client.admin.get_overview())["queues"] >= 1
    assert (await client.admin.get_status(queue=queue))["messages"]["pending"] == 2
    listed = await client.admin.get_queue_stats(limit=1)
    assert [one["name"] for one in listed["queues"]] == [queue]
    detail = await client.admin.get_queue_detail(queue)
    assert [one["name"] for one in detail["partitions"]] == ["p0", "p1"]
    points = (await client.admin.get_analytics(queue=queue, interval="day"))["dataPoints"]
    assert sum(point["messages"] for point in points) == 2
