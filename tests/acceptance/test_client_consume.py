"""Consumers of our client: order, acks, failures, stops, leases, iteration, types."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from queenmq import HandlerFailed, Message, Queen
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.faulty_proxy import FaultyProxy, faulty_proxy
from tests.support.waiting import wait_until_async


class Order(msgspec.Struct):
    total: int


async def finished(consumer: Any) -> None:
    async with asyncio.timeout(SOON_S):
        await consumer


async def left(queen: Queen, queue: str, **how: Any) -> list[Any]:
    """What a pop gets now."""
    return [message.data for message in await queen.pop(queue, batch=1000, partitions=50, **how)]


async def letters(queen: Queen, queue: str) -> list[tuple[Any, str | None]]:
    return [(one.data, one.error_message) for one in await queen.dead_letters(queue)]


@pytest.mark.parametrize("deleted", [0, 1, 4], ids=["first", "middle", "last"])
async def test_a_batch_that_loses_a_message_while_it_is_handled_is_done_all_the_same(
    queen: Queen, deleted: int
) -> None:
    """The client acks only the last message, which may be the deleted one."""
    queue, seen = unique(), []
    await queen.push(queue, list(range(5)))

    async def handle(messages: list[Message[Any]]) -> None:
        if not seen:
            await queen.push(queue, 5)
            gone = messages[deleted]
            await queen.admin.delete_message(gone.partition_id, gone.transaction_id)
        seen.extend(message.data for message in messages)

    # The new message is behind the lease, which would last for five minutes.
    await finished(queen.consume(queue, handle, batch=5, limit=6))
    assert seen == list(range(6))


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize("style", ["single", "each", "batch"])
async def test_partitions_stay_in_order_and_never_run_twice_at_once(
    queen: Queen, concurrency: int, style: str
) -> None:
    queue, seen, running = unique(), [], set()
    for partition in range(4):
        numbers = [[partition, n] for n in range(15)]
        await queen.push(queue, numbers, partition=f"p{partition}")

    async def handle(given: Any) -> None:
        messages = given if isinstance(given, list) else [given]
        places = {message.partition for message in messages}
        assert not places & running
        running.update(places)
        # Others get a chance to run meanwhile.
        await queen.admin.health()
        running.difference_update(places)
        seen.extend(message.data for message in messages)

    how: dict[str, Any] = {"each": style == "each", "batch": 1 if style == "single" else 4}
    await finished(
        queen.consume(
            queue, handle, concurrency=concurrency, partitions=2, limit=60, timeout_ms=500, **how
        )
    )
    for partition in range(4):
        assert [n for place, n in seen if place == partition] == list(range(15))
    assert await left(queen, queue) == []


async def test_a_failed_message_comes_again_before_the_rest_of_its_batch(queen: Queen) -> None:
    queue, seen = unique(), []
    await queen.push(queue, list(range(5)))

    async def handle(message: Message[int]) -> None:
        seen.append(message.data)
        if message.data == 2 and seen.count(2) < 3:
            raise RuntimeError("not yet")

    await finished(queen.consume(queue, handle, batch=5, each=True, limit=7, wait=False))
    assert seen == [0, 1, 2, 2, 2, 3, 4]
    assert await left(queen, queue) == []
    assert await letters(queen, queue) == []


async def test_a_failed_lane_does_not_hold_up_the_others_of_its_batch(queen: Queen) -> None:
    queue, seen = unique(), []
    for place in "ab":
        await queen.push(queue, [f"{place}0", f"{place}1"], partition=place)

    async def handle(message: Message[str]) -> None:
        seen.append(message.data)
        if seen == ["a0"] or seen == ["b0"]:
            raise RuntimeError("once")

    await finished(
        queen.consume(queue, handle, batch=4, partitions=2, each=True, limit=5, wait=False)
    )
    first = seen[0][0]
    other = "b" if first == "a" else "a"
    assert seen == [f"{first}0", f"{other}0", f"{other}1", f"{first}0", f"{first}1"]


async def test_the_text_of_an_error_is_on_the_dead_letter_and_the_batch_goes_on(
    queen: Queen,
) -> None:
    queue, batches = unique(), []
    await queen.create_queue(queue, retry_limit=0)
    await queen.push(queue, ["good", "bad", "last"])

    async def handle(message: Message[str]) -> None:
        batches.append(message.lease_id)
        if message.data == "bad":
            raise ValueError("cannot")

    await finished(queen.consume(queue, handle, batch=3, each=True, limit=3))
    assert await letters(queen, queue) == [("bad", "ValueError: cannot")]
    assert len(set(batches)) == 1, "one lease was enough"
    assert await left(queen, queue) == []


async def test_a_batch_that_fails_comes_again_whole(queen: Queen) -> None:
    queue, batches = unique(), []
    await queen.push(queue, list(range(5)))

    def handle(messages: list[Message[int]]) -> None:
        batches.append([message.data for message in messages])
        if len(batches) == 1:
            raise RuntimeError("once")

    await finished(queen.consume(queue, handle, batch=5, limit=10, wait=False))
    assert batches == [list(range(5))] * 2
    assert await left(queen, queue) == []


@pytest.mark.parametrize("how", ["stop", "event", "signal", "handler", "close", "leave"])
async def test_a_stop_finishes_what_is_in_hand_and_releases_the_rest(
    queen: Queen, broker: Any, how: str
) -> None:
    queue, seen, event = unique(), [], asyncio.Event()
    await queen.push(queue, list(range(5)))
    client = Queen(broker.url)
    stops: dict[str, Callable[[], Any]] = {
        "stop": lambda: asyncio.ensure_future(stopping()),
        "event": event.set,
        "signal": lambda: os.kill(os.getpid(), signal.SIGTERM),
        "handler": lambda: consumer.stop(),
        "close": lambda: asyncio.ensure_future(client.close()),
        "leave": lambda: leave.set(),
    }
    leave = asyncio.Event()

    async def stopping() -> None:
        await consumer.stop()

    async def handle(message: Message[int]) -> None:
        seen.append(message.data)
        if message.data == 1:
            stops[how]()
            if how != "leave":
                inner = consumer._consumer
                await wait_until_async(
                    lambda: inner.is_stopping, timeout_s=SOON_S, what="the consumer to be told"
                )

    consumer = client.consume(
        queue, handle, batch=5, each=True, stop_event=event, signals=how == "signal"
    )
    if how == "leave":
        async with consumer:
            await leave.wait()
    else:
        await finished(consumer)
    assert seen[:2] == [0, 1] and seen == list(range(len(seen)))
    messages = await queen.pop(queue, batch=10)
    assert [message.data for message in messages] == list(range(len(seen), 5))
    assert all(message.retry_count == 0 for message in messages)
    await client.close()


async def test_a_stop_ends_a_consumer_that_waits(queen: Queen) -> None:
    consumer = queen.consume(unique(), lambda message: None, concurrency=3)
    async with asyncio.timeout(SOON_S):
        async with consumer:
            await queen.admin.health()
        await consumer.stop()


async def test_a_cancelled_consumer_gives_its_message_back(queen: Queen) -> None:
    queue, started = unique(), asyncio.Event()
    await queen.push(queue, [1, 2])

    async def handle(message: Message[int]) -> None:
        started.set()
        await asyncio.Event().wait()

    async def consume() -> None:
        await queen.consume(queue, handle, batch=2, each=True)

    task = asyncio.create_task(consume())
    await asyncio.wait_for(started.wait(), SOON_S)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await left(queen, queue) == [1, 2]


async def test_a_lease_is_kept_while_a_handler_runs(queen: Queen) -> None:
    queue, seen = unique(), []
    await queen.create_queue(queue, lease_time=1)
    await queen.push(queue, 1)

    async def handle(message: Message[int]) -> None:
        # Longer than the lease: another consumer waits for the message in vain.
        assert await queen.pop(queue, wait=True, timeout_ms=1500) == []
        seen.append(message.data)

    await finished(queen.consume(queue, handle, limit=1))
    assert seen == [1]
    assert await left(queen, queue) == []


async def test_a_lost_lease_ends_the_batch(queen: Queen, caplog: pytest.LogCaptureFixture) -> None:
    queue, seen = unique(), []
    await queen.push(queue, list(range(3)))

    def is_noticed() -> bool:
        return any(getattr(record, "event", "") == "lease_lost" for record in caplog.records)

    async def handle(message: Message[int]) -> None:
        seen.append(message.data)
        if len(seen) == 1:
            await queen.ack(message, "retry")
            await wait_until_async(is_noticed, timeout_s=SOON_S, what="the renewal to notice")

    await finished(
        queen.consume(queue, handle, batch=3, each=True, limit=6, idle_ms=300, wait=False)
    )
    assert seen == [0, 0, 1, 2]


async def test_a_limit_is_exact_over_all_workers_and_takes_no_more(queen: Queen) -> None:
    queue, seen = unique(), []
    for place in range(10):
        await queen.push(queue, place, partition=f"p{place}")
    await finished(
        queen.consume(queue, lambda message: seen.append(message.data), concurrency=4, limit=7)
    )
    assert len(seen) == 7
    assert sorted(seen + await left(queen, queue)) == list(range(10))


async def test_a_consumer_stops_when_it_has_been_idle(queen: Queen) -> None:
    queue, seen = unique(), []
    await queen.push(queue, [1, 2])
    consumer = queen.consume(queue, lambda m: seen.append(m.data), concurrency=2, idle_ms=200)
    await finished(consumer)
    assert seen == [1, 2]


async def test_manual_acks_are_the_handler_s_and_its_error_ends_the_consumer(queen: Queen) -> None:
    queue = unique()
    await queen.push(queue, ["good", "bad"])

    async def handle(message: Message[str]) -> None:
        if message.data == "bad":
            raise ValueError("cannot")
        await queen.ack(message)

    with pytest.raises(HandlerFailed, match="cannot") as caught:
        await finished(queen.consume(queue, handle, auto_ack=False, wait=False))
    assert isinstance(caught.value.__cause__, ValueError)
    assert await left(queen, queue) == [], "still leased"


async def test_callbacks_ack_for_themselves(queen: Queen) -> None:
    queue, results = unique(), []
    await queen.create_queue(queue, retry_limit=0)
    await queen.push(queue, ["good", "bad"])

    async def handle(message: Message[str]) -> str:
        if message.data == "bad":
            raise ValueError("cannot")
        return message.data.upper()

    async def succeed(message: Message[str], result: str) -> None:
        results.append(result)
        await queen.ack(message)

    async def fail(message: Message[str], error: Exception) -> None:
        await queen.nack(message, str(error))

    consumer = queen.queue(queue).limit(2).consume(handle)
    await finished(consumer.on_success(succeed).on_error(fail))
    assert results == ["GOOD"]
    assert await letters(queen, queue) == [("bad", "cannot")]


async def test_a_message_is_acked_when_the_next_one_is_asked_for(queen: Queen) -> None:
    queue, seen = unique(), []
    await queen.push(queue, list(range(4)))
    async for message in queen.queue(queue).group("g").batch(3).limit(4).consume():
        seen.append(message.data)
    assert seen == list(range(4))
    assert await left(queen, queue, group="g") == []


async def test_leaving_a_loop_gives_back_the_message_in_hand(queen: Queen) -> None:
    queue = unique()
    await queen.push(queue, list(range(4)))
    async with queen.consume(queue, batch=4) as messages:
        async for message in messages:
            if message.data == 2:
                break
    again = await queen.pop(queue, batch=10)
    assert [(message.data, message.retry_count) for message in again] == [(2, 0), (3, 0)]


async def test_leaving_a_bare_loop_gives_back_the_message_in_hand_too(queen: Queen) -> None:
    queue = unique()
    await queen.push(queue, [0, 1])
    async for message in queen.consume(queue, batch=4):
        assert message.data == 0
        break
    await wait_until_async(
        lambda: left(queen, queue, auto_ack=True), timeout_s=SOON_S, what="the release"
    )


async def test_an_error_in_a_loop_is_a_failure_of_the_message(queen: Queen) -> None:
    queue = unique()
    await queen.create_queue(queue, retry_limit=0)
    await queen.push(queue, ["bad", "next"])
    with pytest.raises(ValueError, match="cannot"):
        async with queen.consume(queue, batch=4) as messages:
            async for _ in messages:
                raise ValueError("cannot")
    assert await letters(queen, queue) == [("bad", "ValueError: cannot")]
    assert await left(queen, queue) == ["next"]


@pytest.mark.parametrize("style", ["each", "batch", "loop"])
async def test_a_payload_of_a_wrong_type_fails_alone(queen: Queen, style: str) -> None:
    queue, seen = unique(), []
    await queen.create_queue(queue, retry_limit=0)
    await queen.push(queue, [{"total": 1}, {"total": "much"}, {"total": 3}])
    how: Any = {"type": Order, "batch": 3, "each": style == "each", "idle_ms": 300}

    async def handle(given: Any) -> None:
        seen.extend(message.data for message in (given if isinstance(given, list) else [given]))

    if style == "loop":
        async for message in queen.consume(queue, **how):
            seen.append(message.data)
    else:
        await finished(queen.consume(queue, handle, **how))
    assert seen == [Order(1), Order(3)]
    ((data, error),) = await letters(queen, queue)
    assert data == {"total": "much"} and "total" in (error or "")


async def test_a_namespace_is_consumed_over_all_its_queues(queen: Queen) -> None:
    space, seen = unique("space"), []
    for name in ("a", "b"):
        await queen.create_queue(f"{space}.{name}", namespace=space)
        await queen.push(f"{space}.{name}", name)
    consumer = queen.consume(None, lambda message: seen.append(message.data), namespace=space,
                             limit=2)  # fmt: skip
    await finished(consumer)
    assert sorted(seen) == ["a", "b"]


async def test_a_consumption_is_used_once_and_as_it_was_made(queen: Queen) -> None:
    consumer = queen.consume(unique(), lambda message: None, limit=0)
    await consumer
    with pytest.raises(RuntimeError, match="consume again"):
        await consumer
    with pytest.raises(ValueError, match="no handler"):
        await queen.consume(unique())
    with pytest.raises(ValueError, match="leave the handler out"):
        async for _ in queen.consume(unique(), lambda message: None):
            pass


async def test_the_next_batch_is_popped_beside_the_acks_of_another_partition(
    broker: BrokerProcess, queen: Queen
) -> None:
    queue, seen = unique(), []
    for partition in "abcdef":
        await queen.push(queue, partition, partition=partition)
    async with faulty_proxy(broker.url) as proxy, Queen(proxy.url) as client:

        async def handle(message: Message[str]) -> None:
            seen.append(message.data)
            if len(seen) == 2:
                proxy.hold_path = b"/api/v1/ack"

        async with client.consume(queue, handle) as consumer, releasing(proxy):
            await wait_until_async(
                lambda: len(seen) == 3 and proxy.held, timeout_s=SOON_S, what="a third message"
            )
            # No further: the acks of the second have to get through before the next pop.
            await goes_on(consumer)
            assert len(seen) == 3
            proxy.release()
            await wait_until_async(lambda: len(seen) == 6, timeout_s=SOON_S, what="all messages")
        assert sorted(seen) == list("abcdef")
        assert await left(queen, queue) == []


async def test_the_next_batch_of_the_same_partition_waits_for_the_acks(
    broker: BrokerProcess, queen: Queen
) -> None:
    queue, seen = unique(), []
    await queen.push(queue, list(range(5)))
    async with faulty_proxy(broker.url) as proxy, Queen(proxy.url) as client:

        async def handle(message: Message[int]) -> None:
            seen.append(message.data)
            if len(seen) == 3:
                proxy.hold_path = b"/api/v1/ack"

        async with client.consume(queue, handle) as consumer, releasing(proxy):
            await wait_until_async(lambda: proxy.held, timeout_s=SOON_S, what="the third ack")
            await goes_on(consumer)
            assert seen == [0, 1, 2]
            stopping = asyncio.ensure_future(stop(consumer))
            # A stop waits for acks that are under way.
            await goes_on(consumer)
            proxy.release()
            await asyncio.wait_for(stopping, SOON_S)
        assert await left(queen, queue) == [3, 4]


async def goes_on(consumer: Any) -> None:
    """Give it a moment to do something that it should not, or to end."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(consumer._ended.wait(), 0.1)


@contextlib.asynccontextmanager
async def releasing(proxy: FaultyProxy) -> AsyncIterator[None]:
    """Whatever happens, nothing waits for the proxy at the end."""
    try:
        yield
    finally:
        proxy.release()


async def stop(consumer: Any) -> None:
    await consumer.stop()


@pytest.mark.parametrize("style", ["each", "batch"])
async def test_an_error_of_a_handler_is_logged_with_its_traceback(
    queen: Queen, caplog: pytest.LogCaptureFixture, style: str
) -> None:
    queue = unique()
    await queen.create_queue(queue, retry_limit=1, retry_delay=0)
    (result,) = await queen.push(queue, 1, partition="p")

    def handle(given: Any) -> None:
        raise ValueError("boom")

    how: dict[str, Any] = {"batch": 5, "each": style == "each", "group": "g"}
    await finished(queen.consume(queue, handle, idle_ms=500, **how))
    logged = [one for one in caplog.records if getattr(one, "event", "") == "handler_failed"]
    assert [one.attempt for one in logged] == [1, 2]  # type: ignore[attr-defined]
    for one in logged:
        assert one.name.startswith("queenmq.client") and one.levelname == "ERROR"
        assert (one.queue, one.partition, one.group) == (queue, "p", "g")  # type: ignore[attr-defined]
        assert one.transactionId == result["transaction_id"]  # type: ignore[attr-defined]
        assert one.exc_info is not None and str(one.exc_info[1]) == "boom"
        # Not `caplog.text`: its format is up to every library of the process.
        assert "in handle" in logging.Formatter().formatException(one.exc_info)
        assert queue in one.getMessage()


async def test_what_the_caller_gets_to_see_is_not_logged_too(
    queen: Queen, caplog: pytest.LogCaptureFixture
) -> None:
    queue = unique()
    await queen.push(queue, [1, 2])
    errors: list[Exception] = []

    def handle(message: Message) -> None:
        raise ValueError("boom")

    with pytest.raises(HandlerFailed):
        await finished(queen.consume(queue, handle, auto_ack=False))

    async def tell(message: Message, error: Exception) -> None:
        errors.append(error)
        await queen.ack(message)

    await queen.push(queue, 3, partition="q")
    await finished(queen.consume(queue, handle, partition="q", limit=1).on_error(tell))
    assert len(errors) == 1 and not caplog.records


async def test_a_queue_that_the_client_creates_waits_before_a_retry(queen: Queen) -> None:
    queue, times = unique(), []
    assert (await queen.create_queue(queue))["options"]["retryDelay"] == 1000
    await queen.push(queue, 1)

    def handle(message: Message) -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 1:
            raise ValueError("not yet")

    await finished(queen.consume(queue, handle, limit=2))
    assert times[1] - times[0] >= 1.0
    assert (await queen.create_queue(queue, retry_delay=0))["options"]["retryDelay"] == 0
