"""Buffered pushes: sent by count and time, kept over failures, never lost without a word."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from queenmq import BufferFailed, ClientClosed, Queen
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.faulty_proxy import faulty_proxy
from tests.support.scripted_server import Say, Silence, scripted
from tests.support.waiting import wait_until_async

FAST: dict[str, Any] = {"retry_delay_millis": 1, "max_retry_delay": 0.05, "retry_attempts": 1}
NEVER: dict[str, Any] = {"time_millis": 3_600_000}


async def data(queen: Queen, queue: str) -> list[Any]:
    return [m.data for m in await queen.pop(queue, batch=1000, auto_ack=True)]


async def arrived(queen: Queen, queue: str, count: int) -> list[Any]:
    found: list[Any] = []

    async def is_there() -> bool:
        found.extend(await data(queen, queue))
        return len(found) >= count

    await wait_until_async(is_there, timeout_s=SOON_S, what=f"{count} messages")
    return found


async def test_a_buffer_is_sent_when_it_is_full(queen: Queen) -> None:
    queue = unique()
    builder = queen.queue(queue).buffer({"message_count": 3, **NEVER})
    for number in range(3):
        assert await builder.push({"data": number}) == {"buffered": True, "count": 1}
    assert await arrived(queen, queue, 3) == [0, 1, 2]
    assert queen.get_buffer_stats()["flushesPerformed"] == 1


async def test_a_buffer_is_sent_when_its_time_is_over(queen: Queen) -> None:
    queue = unique()
    await queen.push_buffered(queue, [1, 2], time_millis=20)
    assert await arrived(queen, queue, 2) == [1, 2]


async def test_a_flush_sends_what_is_there(queen: Queen) -> None:
    queue = unique()
    await queen.push_buffered(queue, "a", partition="p", **NEVER)
    await queen.push_buffered(queue, "b", **NEVER)
    stats = queen.get_buffer_stats()
    assert (stats["activeBuffers"], stats["totalBufferedMessages"]) == (2, 2)
    await queen.queue(queue).partition("p").flush_buffer()
    assert await data(queen, queue) == ["a"]
    await queen.flush_all_buffers()
    assert await data(queen, queue) == ["b"]
    assert queen.get_buffer_stats()["totalBufferedMessages"] == 0


async def test_close_sends_what_is_there(broker: BrokerProcess, queen: Queen) -> None:
    queue = unique()
    async with Queen(broker.url) as client:
        await client.push_buffered(queue, list(range(250)), **NEVER)
    assert await data(queen, queue) == list(range(250))
    with pytest.raises(ClientClosed):
        await client.push_buffered(queue, 1)


async def test_a_failed_flush_is_said_and_made_up_for_in_order(
    broker: BrokerProcess, queen: Queen
) -> None:
    queue, errors = unique(), []
    async with faulty_proxy(broker.url) as proxy:
        async with Queen(proxy.url, on_buffer_error=errors.append, **FAST) as client:
            await proxy.refuse()
            await client.push_buffered(queue, list(range(10)), message_count=4)
            with pytest.raises(BufferFailed) as caught:
                await client.flush_all_buffers()
            assert len(caught.value.items) == 10
            assert errors
            await client.push_buffered(queue, list(range(10, 20)), message_count=4)
            await proxy.listen()
            assert await arrived(queen, queue, 20) == list(range(20))


async def test_a_full_buffer_makes_the_caller_wait(broker: BrokerProcess, queen: Queen) -> None:
    queue = unique()
    async with faulty_proxy(broker.url) as proxy, Queen(proxy.url, **FAST) as client:
        await proxy.refuse()
        options: Any = {"message_count": 2, "max_size": 4}
        push = asyncio.create_task(client.push_buffered(queue, list(range(10)), **options))
        await wait_until_async(
            lambda: client.get_buffer_stats()["totalBufferedMessages"] == 4,
            timeout_s=SOON_S,
            what="the buffer to fill",
        )
        done, _ = await asyncio.wait([push], timeout=0.1)
        assert not done
        await proxy.listen()
        await asyncio.wait_for(push, SOON_S)
        assert await arrived(queen, queue, 10) == list(range(10))


async def test_what_the_server_refuses_for_good_comes_back_and_the_rest_gets_through(
    queen: Queen, broker: BrokerProcess
) -> None:
    queue, errors = unique(), []
    long = "x" * 300
    async with Queen(broker.url, on_buffer_error=errors.append) as client:
        items = [1, {"data": 2, "transactionId": long}, 3]
        await client.push_buffered(queue, items, **NEVER)
        with pytest.raises(BufferFailed, match="255") as caught:
            await client.flush_all_buffers()
        assert [item["payload"] for item in caught.value.items] == [2]
        assert [item["payload"] for error in errors for item in error.items] == [2]
        assert await data(queen, queue) == [1, 3]


async def test_close_hands_back_what_it_could_not_deliver(broker: BrokerProcess) -> None:
    async with faulty_proxy(broker.url) as proxy:
        client = Queen(proxy.url, close_timeout=0.2, **FAST)
        await proxy.refuse()
        await client.push_buffered(unique(), [1, 2, 3])
        with pytest.raises(BufferFailed, match="got no answer") as caught:
            await client.close()
    assert [item["payload"] for item in caught.value.items] == [1, 2, 3]


async def test_close_tells_whoever_waits_for_room(broker: BrokerProcess) -> None:
    async with faulty_proxy(broker.url) as proxy:
        client = Queen(proxy.url, close_timeout=0.1, **FAST)
        await proxy.refuse()
        push = asyncio.create_task(client.push_buffered(unique(), [1, 2, 3, 4, 5],
                                                        message_count=2, max_size=2))  # fmt: skip
        await wait_until_async(
            lambda: client.get_buffer_stats()["totalBufferedMessages"] == 2,
            timeout_s=SOON_S,
            what="the buffer to fill",
        )
        with pytest.raises(BufferFailed) as undelivered:
            await client.close()
        with pytest.raises(BufferFailed, match="closed") as refused:
            await asyncio.wait_for(push, SOON_S)
    items = [*undelivered.value.items, *refused.value.items]
    assert [item["payload"] for item in items] == [1, 2, 3, 4, 5]


async def test_a_full_queue_keeps_the_rest_waiting_in_order(queen: Queen) -> None:
    queue = unique()
    await queen.create_queue(queue, max_size=5)
    await queen.push_buffered(queue, list(range(12)), message_count=4)
    with pytest.raises(BufferFailed, match="maxSize"):
        await queen.flush_all_buffers()
    assert await arrived(queen, queue, 12) == list(range(12))


async def test_unknown_options_are_refused(queen: Queen) -> None:
    with pytest.raises(TypeError, match="size"):
        await queen.push_buffered(unique(), 1, size=3)  # type: ignore[call-arg]


async def test_a_request_that_is_too_large_is_sent_in_parts_and_in_order() -> None:
    stored = [{"status": "queued"}, {"status": "queued"}]
    script = (Say(413, {"error": "too large"}), Say(201, stored))
    async with scripted(*script) as server, Queen(server.url, **FAST) as client:
        await client.push_buffered("q", [1, 2, 3, 4], message_count=4, **NEVER)
        await client.flush_all_buffers()
        sent = [[item["payload"] for item in one.body["items"]] for one in server.seen]
    assert sent == [[1, 2, 3, 4], [1, 2], [3, 4]]


async def test_all_partitions_together_are_bounded(broker: BrokerProcess, queen: Queen) -> None:
    queue = unique()
    async with faulty_proxy(broker.url) as proxy:
        await proxy.refuse()
        async with Queen(proxy.url, buffered_max=5, **FAST) as client:
            for number in range(5):
                await client.push_buffered(queue, number, partition=f"p{number}", time_millis=1)
            waiting = asyncio.ensure_future(client.push_buffered(queue, 5, partition="p5"))
            done, _ = await asyncio.wait([waiting], timeout=0.1)
            assert not done
            assert client.get_buffer_stats()["totalBufferedMessages"] == 5
            await proxy.listen()
            await asyncio.wait_for(waiting, SOON_S)
            await wait_until_async(
                lambda: client.get_buffer_stats()["totalBufferedMessages"] <= 1,
                timeout_s=SOON_S,
                what="the others to be sent",
            )
        found = await queen.pop(queue, batch=10, partitions=10)
        assert sorted(message.data for message in found) == list(range(6))


async def test_a_buffer_that_is_empty_is_forgotten_and_its_flushes_are_not(queen: Queen) -> None:
    queue = unique()
    for number in range(20):
        await queen.push_buffered(queue, number, partition=f"p{number}", **NEVER)
    assert len(queen._buffers._buffers) == 20
    await queen.flush_all_buffers()
    await wait_until_async(
        lambda: not queen._buffers._buffers, timeout_s=SOON_S, what="the buffers to go"
    )
    assert queen.get_buffer_stats()["flushesPerformed"] == 20
    await queen.push_buffered(queue, 20, **NEVER)
    assert queen.get_buffer_stats()["totalBufferedMessages"] == 1


async def test_what_was_refused_elsewhere_comes_back_before_anybody_waits_for_its_room(
    broker: BrokerProcess,
) -> None:
    # A name that is too long is refused for good.
    queue = unique()
    async with Queen(broker.url, buffered_max=1, **FAST) as client:
        await client.push_buffered(queue, "bad", partition="p" * 3_000, message_count=1)
        with pytest.raises(BufferFailed) as failed:
            await asyncio.wait_for(client.push_buffered(queue, "good"), SOON_S)
        assert [item["payload"] for item in failed.value.items] == ["bad"]
        await client.push_buffered(queue, "good", message_count=1)


class FailingJson:
    """The module `json`, with an answer that it fails to read for as long as a test wants."""

    def __init__(self) -> None:
        self.is_failing = False

    def dumps(self, value: Any, /) -> str:
        return json.dumps(value)

    def loads(self, text: bytes, /) -> Any:
        if self.is_failing:
            raise TypeError("out of order")
        return json.loads(text)


@pytest.mark.parametrize("library", [None, json], ids=["msgspec", "json"])
async def test_a_payload_that_cannot_be_encoded_is_refused_at_once_and_holds_nothing_up(
    broker: BrokerProcess, queen: Queen, library: Any
) -> None:
    queue = unique()
    async with Queen(broker.url, json=library) as client:
        await client.push_buffered(queue, "before", **NEVER)
        with pytest.raises(TypeError):
            await client.push_buffered(queue, ["beside", object()], **NEVER)
        with pytest.raises(TypeError):
            await client.queue(queue).buffer({**NEVER}).push({"data": object()})
        await client.push_buffered(queue, "after", **NEVER)
        assert client.get_buffer_stats()["totalBufferedMessages"] == 2
        await asyncio.wait_for(client.flush_all_buffers(), SOON_S)
        assert await data(queen, queue) == ["before", "after"]


async def test_a_payload_is_sent_as_it_was_when_it_was_buffered(queen: Queen) -> None:
    queue, payload = unique(), {"step": 1}
    await queen.push_buffered(queue, payload, **NEVER)
    payload["step"] = 2
    await queen.flush_all_buffers()
    assert await data(queen, queue) == [{"step": 1}]


async def test_a_buffer_survives_an_error_that_is_not_of_the_client(
    broker: BrokerProcess, queen: Queen
) -> None:
    queue, library = unique(), FailingJson()
    async with Queen(broker.url, json=library, **FAST) as client:
        library.is_failing = True
        await client.push_buffered(queue, [1, 2], **NEVER)
        with pytest.raises(BufferFailed, match="TypeError: out of order") as failed:
            await asyncio.wait_for(client.flush_all_buffers(), SOON_S)
        assert [item["payload"] for item in failed.value.items] == [1, 2]
        library.is_failing = False
        await client.push_buffered(queue, 3, **NEVER)
        await asyncio.wait_for(client.flush_all_buffers(), SOON_S)
        # The first two were stored when their answer could not be read; they are not stored twice.
        assert await data(queen, queue) == [1, 2, 3]


async def test_close_hands_back_the_items_of_all_partitions(broker: BrokerProcess) -> None:
    library, long, refused = FailingJson(), "x" * 300, list[BufferFailed]()
    client = Queen(
        broker.url, json=library, on_buffer_error=refused.append, close_timeout=0.2, **FAST
    )
    for payload in (1, 2):
        item = {"data": payload, "transactionId": long}
        await client.push_buffered(unique(), item, message_count=1)
    await wait_until_async(lambda: len(refused) == 2, timeout_s=SOON_S, what="the refusals")
    await client.push_buffered(unique(), 3, **NEVER)
    library.is_failing = True
    with pytest.raises(BufferFailed, match="TypeError: out of order") as failed:
        await client.close()
    assert "255" in failed.value.reason
    assert sorted(item["payload"] for item in failed.value.items) == [1, 2, 3]


async def test_a_flush_hands_back_what_was_refused_in_all_partitions(
    broker: BrokerProcess, queen: Queen
) -> None:
    queue, long = unique(), "x" * 300
    async with Queen(broker.url) as client:
        for payload in (1, 2):
            item = {"data": payload, "transactionId": long}
            await client.push_buffered(queue, item, partition=f"p{payload}", **NEVER)
        await client.push_buffered(queue, 3, **NEVER)
        with pytest.raises(BufferFailed, match="255") as failed:
            await client.flush_all_buffers()
        assert sorted(item["payload"] for item in failed.value.items) == [1, 2]
    assert await data(queen, queue) == [3]


async def test_close_ends_a_flush_that_gets_no_answer() -> None:
    async with scripted(Silence()) as server:
        client = Queen(server.url, close_timeout=0.1)
        await client.push_buffered("q", [1, 2], **NEVER)
        flush = asyncio.create_task(client.flush_all_buffers())
        await wait_until_async(lambda: server.connections, timeout_s=SOON_S, what="the push")
        with pytest.raises(BufferFailed, match="no time was left"):
            await client.close()
        with pytest.raises(BufferFailed) as failed:
            await asyncio.wait_for(flush, SOON_S)
    assert [item["payload"] for item in failed.value.items] == [1, 2]


@pytest.mark.parametrize("seed", [1, 2])
async def test_buffered_pushes_over_a_bad_network_are_stored_once_and_in_order(
    broker: BrokerProcess, queen: Queen, seed: int
) -> None:
    queue = unique()
    fast: dict[str, Any] = {**FAST, "retry_attempts": 2}
    async with faulty_proxy(broker.url, seed=seed) as proxy, Queen(proxy.url, **fast) as client:
        proxy.fault_rate = 0.2
        builder = client.queue(queue).buffer({"message_count": 5, "time_millis": 5, "max_size": 20})
        for number in range(200):
            await builder.push({"data": number})
        assert proxy.faults
        proxy.fault_rate = 0.0
    assert await arrived(queen, queue, 200) == list(range(200))
