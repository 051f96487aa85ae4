"""Long polls, held-back messages and pops over a namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import quote

from tests.conformance.shorthand import SOON_MS, drain, next_of, raw_connection
from tests.support.broker import Api, BrokerProcess, unique


async def test_a_waiting_pop_is_woken_by_a_push(api: Api) -> None:
    queue = unique()
    waiting = asyncio.create_task(api.data(queue, wait=True, timeout=SOON_MS))
    # Two more requests to the same place: the first is parked by the time they are answered.
    assert await api.pop(queue) == []
    assert await api.pop(queue) == []
    await api.push(queue, "hello")
    assert await waiting == ["hello"]


async def test_a_waiting_pop_of_one_partition_is_woken_by_its_first_push(api: Api) -> None:
    queue = unique()
    waiting = asyncio.create_task(api.data(queue, partition="a", wait=True, timeout=SOON_MS))
    await api.push(queue, "other", partition="b")
    await api.push(queue, "mine", partition="a")
    assert await waiting == ["mine"]


async def test_a_waiting_pop_is_answered_at_once_when_there_is_something(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1)
    assert await api.data(queue, wait=True, timeout=SOON_MS) == [1]


async def test_a_waiting_pop_is_woken_when_a_lease_ends(api: Api) -> None:
    queue = unique()
    await api.push(queue, 1, 2)
    messages = await api.pop(queue)
    waiting = asyncio.create_task(api.data(queue, wait=True, timeout=SOON_MS))
    assert await api.pop(queue) == []
    await api.ack(*messages)
    assert await waiting == [2]


async def test_a_wait_that_ends_without_messages_is_an_empty_answer(api: Api) -> None:
    for path in (unique(), f"{unique()}/partition/a"):
        query = {"wait": "true", "timeout": "150"}
        response = await api.http.get(f"/api/v1/pop/queue/{path}", params=query)
        assert response.status_code == 204
        assert response.content == b""


async def test_a_timeout_of_zero_does_not_wait(api: Api) -> None:
    assert await api.pop(unique(), wait=True, timeout=0) == []


async def test_each_waiting_pop_gets_different_messages(api: Api) -> None:
    queue = unique()
    waiting = [
        asyncio.create_task(api.data(queue, wait=True, timeout=SOON_MS, autoAck=True))
        for _ in range(20)
    ]
    assert await api.pop(queue) == []
    await api.push_items(
        [{"queue": queue, "partition": f"p{n % 4}", "payload": n} for n in range(20)]
    )
    found = [data for (data,) in await asyncio.gather(*waiting)]
    assert sorted(found) == list(range(20))


async def test_waiting_pops_of_several_groups_all_get_the_message(api: Api) -> None:
    queue = unique()
    waiting = [
        asyncio.create_task(api.data(queue, wait=True, timeout=SOON_MS, consumerGroup=group))
        for group in ("a", "b", "c")
    ]
    await api.push(queue, 1)
    assert await asyncio.gather(*waiting) == [[1], [1], [1]]


async def test_a_caller_that_hung_up_holds_nothing(api: Api, broker: BrokerProcess) -> None:
    queue = unique()
    path = f"/api/v1/pop/queue/{queue}?wait=true&timeout={SOON_MS}"
    for round_number in range(5):
        async with raw_connection(broker.url) as (_, writer):
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            await writer.drain()
            assert await api.pop(queue) == []
            assert await api.pop(queue) == []
        await api.push(queue, round_number)
        (message,) = await next_of(api, queue)
        assert message["data"] == round_number
        assert message["retryCount"] == 0
        await api.ack(message)


async def test_of_many_callers_that_hung_up_none_takes_a_message_along(
    api: Api, broker: BrokerProcess
) -> None:
    queue = unique()
    path = f"/api/v1/pop/queue/{queue}?wait=true&timeout={SOON_MS}&partitions=3&batch=9"

    async def hang_up() -> None:
        async with raw_connection(broker.url) as (_, writer):
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            await writer.drain()

    await asyncio.gather(*(hang_up() for _ in range(20)))
    await api.push_items([{"queue": queue, "partition": f"p{n}", "payload": n} for n in range(10)])
    found: list[int] = []
    while len(found) < 10:
        messages = await next_of(api, queue, batch=10, partitions=10)
        found += [message["data"] for message in messages]
        await api.ack(*messages)
    assert sorted(found) == list(range(10))


async def test_delayed_processing_holds_messages_back(api: Api) -> None:
    queue = unique()
    await api.configure(queue, delayedProcessing=3600)
    await api.push(queue, 1)
    assert await api.pop(queue) == []
    assert await api.pop(queue, partition="Default") == []
    await api.configure(queue, delayedProcessing=0)
    assert await api.data(queue) == [1]


async def test_a_delayed_message_reaches_a_waiting_pop_when_it_is_due(api: Api) -> None:
    queue = unique()
    await api.configure(queue, delayedProcessing=1)
    await api.push(queue, 1)
    (message,) = await next_of(api, queue)
    assert message["data"] == 1


async def test_a_partition_that_is_not_due_does_not_hide_one_that_is(api: Api) -> None:
    queue = unique()
    await api.configure(queue, delayedProcessing=1)
    await api.push(queue, "due", partition="a")
    await next_of(api, queue, consumerGroup="clock")
    for n in range(5):
        await api.push(queue, "young", partition=f"b{n}")
    assert "due" in await api.data(queue, batch=10, partitions=10)


async def test_a_window_buffer_holds_a_partition_until_it_is_quiet(api: Api) -> None:
    queue = unique()
    await api.configure(queue, windowBuffer=3600)
    await api.push(queue, 1, 2)
    assert await api.pop(queue, batch=10) == []
    assert await api.pop(queue, partition="Default", batch=10) == []
    await api.configure(queue, windowBuffer=1)
    await api.push(queue, 3)
    assert [one["data"] for one in await next_of(api, queue, batch=10)] == [1, 2, 3]


async def test_a_window_buffer_looks_at_each_partition_by_itself(api: Api) -> None:
    queue = unique()
    await api.configure(queue, windowBuffer=1)
    await api.push(queue, "old", partition="a")
    await next_of(api, queue, consumerGroup="clock")
    await api.push(queue, "fresh", partition="b")
    assert "old" in await api.data(queue, batch=10, partitions=2)


async def test_a_pop_over_a_namespace_takes_the_highest_priority_first(api: Api) -> None:
    namespace = unique("namespace")
    for priority in (1, 10, 5):
        queue = unique()
        await api.configure(queue, namespace=namespace, task="t", priority=priority)
        await api.push(queue, priority)
    query = {"namespace": namespace, "task": "t", "autoAck": "true", "batch": "10"}
    found = []
    for _ in range(3):
        response = await api.http.get("/api/v1/pop", params=query)
        found += [message["data"] for message in response.json()["messages"]]
    assert found == [10, 5, 1]


async def test_a_pop_over_a_namespace_matches_namespace_and_task(api: Api) -> None:
    namespace, task = unique("namespace"), unique("task")
    queues = {"both": (namespace, task), "namespace": (namespace, "x"), "task": ("x", task)}
    names = {}
    for label, (one_namespace, one_task) in queues.items():
        names[label] = unique()
        await api.configure(names[label], namespace=one_namespace, task=one_task)
        await api.push(names[label], label)

    async def pop_all(group: str, **query: str) -> set[str]:
        found = set()
        query |= {"autoAck": "true", "batch": "10", "consumerGroup": group}
        while (response := await api.http.get("/api/v1/pop", params=query)).status_code == 200:
            answer = response.json()
            label = answer["messages"][0]["data"]
            assert answer["queue"] == answer["messages"][0]["queue"] == names[label]
            found.add(label)
        return found

    assert await pop_all("a", namespace=namespace, task=task) == {"both"}
    assert await pop_all("b", namespace=namespace) == {"both", "namespace"}
    assert await pop_all("c", task=task) == {"both", "task"}
    assert await pop_all("d", namespace=unique()) == set()


async def test_a_queue_made_by_a_push_takes_namespace_and_task_from_its_name(api: Api) -> None:
    namespace, task = unique("namespace"), unique("task")
    await api.push(f"{namespace}.{task}.rest.more", 1)
    response = await api.http.get("/api/v1/pop", params={"namespace": namespace, "task": task})
    assert response.json()["queue"] == f"{namespace}.{task}.rest.more"


async def test_a_waiting_pop_over_a_namespace_is_woken_by_a_new_queue(api: Api) -> None:
    namespace = unique("namespace")
    path = f"/api/v1/pop?namespace={quote(namespace)}&wait=true&timeout={SOON_MS}"
    waiting = asyncio.create_task(api.http.get(path))
    assert await api.pop(unique()) == []
    await api.push(f"{namespace}.t", 1)
    response = await waiting
    assert response.json()["messages"][0]["data"] == 1


async def test_a_push_through_one_broker_wakes_a_pop_at_another(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    first, second = Api(start_broker().url), Api(start_broker().url)
    queue = unique()
    try:
        waiting = asyncio.create_task(second.data(queue, wait=True, timeout=SOON_MS))
        assert await second.pop(queue) == []
        await first.push(queue, 1)
        assert await waiting == [1]
        assert await drain(first, queue) == []
    finally:
        await first.close()
        await second.close()
