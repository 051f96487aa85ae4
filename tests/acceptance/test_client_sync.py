"""The client for plain threads: the same calls, from any thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from queenmq import (
    BufferFailed,
    ClientClosed,
    Message,
    ResourceNotFound,
    Stream,
    SyncQueen,
    TransactionFailed,
)
from tests.support.broker import SOON_S, BrokerProcess, unique


class Order(msgspec.Struct):
    total: int


@pytest.fixture
def queen(broker: BrokerProcess) -> Iterator[SyncQueen]:
    with SyncQueen(broker.url) as client:
        yield client


def data(queen: SyncQueen, queue: str, **how: Any) -> list[Any]:
    return [message.data for message in queen.pop(queue, batch=1000, **how)]


def test_plain_calls(queen: SyncQueen) -> None:
    queue = unique()
    assert queen.create_queue(queue, lease_time=5)["options"]["leaseTime"] == 5
    assert [one["status"] for one in queen.push(queue, [{"total": 1}, {"total": 2}])] == [
        "queued"
    ] * 2
    messages = queen.pop(queue, batch=2, type=Order, wait=True, timeout_ms=1000)
    assert [message.data for message in messages] == [Order(1), Order(2)]
    assert queen.renew(messages[0], seconds=10)["success"]
    assert queen.ack(messages)["success"]
    queen.push(queue, 3)
    queen.ack(queen.pop(queue), "dlq", error="no use")
    assert [one.error_message for one in queen.dead_letters(queue)] == ["no use"]
    assert queen.admin.clear_queue(queue)["success"]
    assert queen.delete_queue(queue)["existed"]


def test_fluent_calls(queen: SyncQueen) -> None:
    queue, target = unique(), unique()
    builder = queen.queue(queue).partition("p")
    builder.config({"retry_limit": 0}).create()
    builder.push([{"data": 1}, {"data": 2}])
    builder.buffer({"message_count": 10}).push({"data": 3})
    assert queen.get_buffer_stats()["totalBufferedMessages"] == 1
    queen.flush_all_buffers()
    messages = queen.queue(queue).batch(10).wait(False).pop()
    assert [message["data"] for message in messages] == [1, 2, 3]
    queen.transaction().queue(target).push({"data": "x"}).ack(messages).commit()
    with queen.transaction() as transaction:
        transaction.push(target, "y")
    assert data(queen, target) == ["x", "y"]
    with pytest.raises(TransactionFailed):
        queen.transaction().ack({"transactionId": "no", "partitionId": messages[0].id}).commit()
    assert queen.queue(queue).dlq().limit(5).get()["total"] == 0


def test_handlers_run_on_threads_beside_each_other(queen: SyncQueen) -> None:
    queue, seen = unique(), []
    for place in range(3):
        queen.push(queue, place, partition=f"p{place}")
    # Passed only when all three are here at the same time.
    barrier = threading.Barrier(3, timeout=SOON_S)

    def handle(message: Message[int]) -> None:
        barrier.wait()
        queen.renew(message)
        seen.append(message.data)

    queen.consume(queue, handle, concurrency=3, limit=3).run()
    assert sorted(seen) == [0, 1, 2]
    assert data(queen, queue) == []


def test_a_failing_handler_gets_the_message_again(queen: SyncQueen) -> None:
    queue, seen = unique(), []
    queen.push(queue, [1, 2])

    def handle(message: Message[int]) -> None:
        seen.append(message.data)
        if len(seen) == 1:
            raise RuntimeError("once")

    queen.queue(queue).batch(2).each().limit(3).consume(handle).run()
    assert seen == [1, 1, 2]


def test_a_loop_acks_and_gives_back_what_is_in_hand(queen: SyncQueen) -> None:
    queue, seen = unique(), []
    queen.push(queue, list(range(5)))
    for message in queen.queue(queue).batch(5).consume():
        if message.data == 3:
            break
        seen.append(message.data)
    assert seen == [0, 1, 2]
    assert data(queen, queue) == [3, 4]


def test_a_consumer_in_the_background_is_stopped(queen: SyncQueen) -> None:
    queue, come = unique(), threading.Event()
    with queen.consume(queue, lambda message: come.set()) as consumer:
        queen.push(queue, 1)
        assert come.wait(SOON_S)
        consumer.stop()
    assert data(queen, queue) == []


def test_a_handler_may_stop_its_consumer(queen: SyncQueen) -> None:
    queue, seen = unique(), []
    queen.push(queue, [1, 2, 3])

    def handle(message: Message[int]) -> None:
        seen.append(message.data)
        consumer.request_stop()

    consumer = queen.consume(queue, handle)
    consumer.run()
    assert seen == [1]


def test_a_stream_runs_plain_functions_that_use_the_client(queen: SyncQueen) -> None:
    source, sink, side = unique(), unique(), unique()
    queen.push(source, [{"t": time, "n": 1} for time in (1_000, 1_999, 2_000, 60_000)])

    def note(order: Any) -> Any:
        # On the thread of the event loop this would wait for itself.
        queen.push(side, order["t"])
        return order["n"]

    stream = (
        queen.stream(source)
        .map(lambda message: message["data"])
        .window_tumbling(1, event_time=lambda message: message["data"]["t"])
        .aggregate({"sum": note})
        .map(lambda value, ctx: {"sum": value["sum"], "start": ctx["windowStart"]})
        .to(queen.queue(sink))
    )
    with stream.start(unique()) as runner:
        found = [message.data for message in queen.consume(sink, limit=2)]
    assert found == [{"sum": 2, "start": 1_000}, {"sum": 1, "start": 2_000}]
    assert data(queen, side) == [1_000, 1_999, 2_000, 60_000]
    assert runner.metrics()["errorsTotal"] == 0


def test_a_stream_is_the_same_query_with_and_without_a_loop(queen: SyncQueen) -> None:
    plain = queen.stream("orders").key_by(str).window_session(gap=5).reduce(max, 0).to("sink")
    other = Stream("orders").key_by(str).window_session(gap=5).reduce(max, 0).to("sink")
    assert plain.config_hash == other.config_hash
    assert plain.chain().key_by is not None


def test_a_stream_runs_until_the_client_is_closed(broker: BrokerProcess) -> None:
    queue, come = unique(), threading.Event()
    with ThreadPoolExecutor(1) as threads, SyncQueen(broker.url) as queen:
        queen.push(queue, 1)
        stream = queen.stream(queue).foreach(lambda number: come.set())
        running = threads.submit(stream.run, unique())
        assert come.wait(SOON_S)
        assert not running.done()
        queen.close()
        running.result(SOON_S)


def test_many_threads_share_one_client(queen: SyncQueen) -> None:
    queue = unique()

    def push(number: int) -> str:
        (result,) = queen.push(queue, number, partition=f"p{number % 5}")
        status: str = result["status"]
        return status

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(push, range(100))) == {"queued"}
    assert sorted(data(queen, queue, partitions=10)) == list(range(100))


def test_errors_come_out_and_a_closed_client_says_so(broker: BrokerProcess) -> None:
    queen = SyncQueen(broker.url)
    with pytest.raises(ResourceNotFound):
        queen.admin.clear_queue(unique())
    queen.close()
    queen.close()
    with pytest.raises(ClientClosed):
        queen.push("q", 1)


def test_a_payload_that_cannot_be_encoded_holds_up_no_buffer(broker: BrokerProcess) -> None:
    queue, long = unique(), "x" * 300
    client = SyncQueen(broker.url)
    client.push_buffered(queue, "good", partition="p", time_millis=3_600_000)
    client.push_buffered(queue, {"data": "refused", "transactionId": long}, time_millis=3_600_000)
    with pytest.raises(TypeError):
        client.push_buffered(queue, object(), partition="p")
    with pytest.raises(BufferFailed, match="255") as failed:
        client.close()
    assert [item["payload"] for item in failed.value.items] == ["refused"]
    with SyncQueen(broker.url) as other:
        assert data(other, queue) == ["good"]
