"""SIGINT and SIGTERM end consumers: what is in hand is finished, the rest is given back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from queenmq import Message, Queen, SyncQueen
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.waiting import wait_until_async

#: More than are handled before a signal has got through.
COUNT = 1_000
NUMBERS = (signal.SIGINT, signal.SIGTERM)

#: Each handles message 0, is told while it has message 1 in hand, and says when it is done.
PROGRAMS = {
    "handler": """
async def handle(message):
    print(message.data, flush=True)
    if message.data == 1:
        await asyncio.to_thread(sys.stdin.readline)

async def main(url, queue):
    async with Queen(url) as queen:
        await queen.consume(queue, handle, batch=1000, each=True, signals=True)
    print("done", flush=True)
asyncio.run(main(*sys.argv[1:]))
""",
    "loop": """
async def main(url, queue):
    async with Queen(url) as queen:
        async with queen.consume(queue, batch=1000, signals=True) as messages:
            async for message in messages:
                print(message.data, flush=True)
                if message.data == 1:
                    await asyncio.to_thread(sys.stdin.readline)
    print("done", flush=True)
asyncio.run(main(*sys.argv[1:]))
""",
    "plain handler": """
def handle(message):
    print(message.data, flush=True)
    if message.data == 1:
        sys.stdin.readline()

with SyncQueen(sys.argv[1]) as queen:
    queen.consume(sys.argv[2], handle, batch=1000, each=True, signals=True).run()
print("done", flush=True)
""",
    "plain loop": """
with SyncQueen(sys.argv[1]) as queen:
    for message in queen.queue(sys.argv[2]).batch(1000).consume(signals=True):
        print(message.data, flush=True)
        if message.data == 1:
            sys.stdin.readline()
print("done", flush=True)
""",
}
IMPORTS = "import asyncio, signal, sys, time\nfrom queenmq import Queen, SyncQueen\n"


@pytest.mark.parametrize("number", NUMBERS, ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_signal_ends_a_program_in_good_order(
    broker: BrokerProcess, tmp_path: Path, program: str, number: signal.Signals
) -> None:
    queue = unique()
    script = tmp_path / "program.py"
    script.write_text(IMPORTS + PROGRAMS[program])
    async with Queen(broker.url) as queen:
        await queen.push(queue, list(range(COUNT)))
        process = subprocess.Popen(
            [sys.executable, str(script), broker.url, queue],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            for expected in ("0", "1"):
                line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), SOON_S)
                assert line.strip() == expected
            process.send_signal(number)
            out, _ = await asyncio.to_thread(process.communicate, "go\n", SOON_S)
        finally:
            process.kill()
            process.communicate()
        *more, last = out.split()
        assert (last, process.returncode) == ("done", 0)
        # It may take a moment until a signal has got through.
        done = 2 + len(more)
        assert more == [str(number) for number in range(2, done)]
        messages = await queen.pop(queue, batch=COUNT)
        assert [m.data for m in messages] == list(range(done, COUNT))
        assert not any(m.retry_count for m in messages)


STREAM = """
# Tests that run in the background of a shell inherit that SIGINT is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

def handle(number):
    print(number, flush=True)
    if number == 1:
        sys.stdin.readline()
    # A thread may notice a signal a second late; not all messages are done by then.
    time.sleep(0.02)

with SyncQueen(sys.argv[1]) as queen:
    try:
        queen.stream(sys.argv[2]).foreach(handle).run(sys.argv[2], batch_size=3)
    except KeyboardInterrupt:
        print("done", flush=True)
"""


async def test_ctrl_c_ends_a_plain_stream_behind_the_batch_in_hand(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    queue = unique()
    script = tmp_path / "program.py"
    script.write_text(IMPORTS + STREAM)
    async with Queen(broker.url) as queen:
        await queen.push(queue, list(range(COUNT)))
        process = subprocess.Popen(
            [sys.executable, str(script), broker.url, queue],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            for expected in ("0", "1"):
                line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), SOON_S)
                assert line.strip() == expected
            process.send_signal(signal.SIGINT)
            out, _ = await asyncio.to_thread(process.communicate, "go\n", SOON_S)
        finally:
            process.kill()
            process.communicate()
        *more, last = out.split()
        assert (last, process.returncode) == ("done", 0)
        # Whole batches, each of which was committed.
        done = 2 + len(more)
        assert done % 3 == 0 and more == [str(number) for number in range(2, done)]
        messages = await queen.pop(queue, group=f"streams.{queue}", batch=COUNT)
        assert [m.data for m in messages] == list(range(done, COUNT))


async def test_a_signal_ends_all_consumers_of_a_program_and_its_own_handlers_come_back(
    queen: Queen,
) -> None:
    seen: list[str] = []
    told: list[int] = []

    async def handle(message: Message[str]) -> None:
        seen.append(message.data)

    before = {number: signal.signal(number, lambda n, _: told.append(n)) for number in NUMBERS}
    try:
        consumers = []
        for number in range(3):
            queue = unique()
            await queen.push(queue, f"of {number}")
            consumers.append(queen.consume(queue, handle, signals=True))
        running = asyncio.gather(*(run(one) for one in consumers))
        await wait_until_async(lambda: len(seen) == 3, timeout_s=SOON_S, what="all to begin")
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, SOON_S)
        assert told == []
        os.kill(os.getpid(), signal.SIGTERM)
        assert told == [signal.SIGTERM]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def run(consumer: Any) -> None:
    await consumer


def test_signals_are_for_the_main_thread(broker: BrokerProcess) -> None:
    async def use() -> None:
        with SyncQueen(broker.url) as queen:
            consumer = queen.consume(unique(), print, signals=True)
            with pytest.raises(ValueError, match="main thread"):
                await asyncio.to_thread(consumer.run)

    asyncio.run(use())
