"""The client on uvloop, the event loop that many programs use instead of asyncio's own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from queenmq import Message, Queen, Unreachable
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.waiting import wait_until_async

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture
def run() -> Run:
    def on_uvloop(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(asyncio.wait_for(work, 4 * SOON_S))

    return on_uvloop


def test_messages_are_pushed_popped_and_acked(run: Run, broker: BrokerProcess) -> None:
    async def work() -> None:
        queue = unique()
        async with Queen(broker.url) as queen:
            await queen.push(queue, [{"data": n} for n in range(3)])
            messages = await queen.pop(queue, batch=10, wait=True)
            assert [message.data for message in messages] == [0, 1, 2]
            assert (await queen.ack(messages))["success"]
            assert await queen.pop(queue) == []

    run(work())


def test_buffers_and_consumers_work_and_stop(run: Run, broker: BrokerProcess) -> None:
    async def work() -> None:
        queue, seen = unique(), []

        async def handle(message: Message[Any]) -> None:
            seen.append(message.data)

        async with Queen(broker.url) as queen:
            async with queen.consume(queue, handle, concurrency=2, batch=5, each=True) as consumer:
                for n in range(50):
                    await queen.push_buffered(queue, n, message_count=20, time_millis=10)
                await wait_until_async(
                    lambda: len(seen) == 50, timeout_s=SOON_S, what="all messages"
                )
                consumer.stop()
        assert seen == list(range(50))

    run(work())


def test_nobody_at_the_address_is_told(run: Run) -> None:
    async def work() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://localhost:{taken.getsockname()[1]}"
            async with Queen(url, retry_attempts=1) as queen:
                with pytest.raises(Unreachable, match="is the server running there"):
                    await queen.push("orders", 1)

    run(work())
