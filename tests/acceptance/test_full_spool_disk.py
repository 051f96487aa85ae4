"""The disk of the spool is full in an outage: what was answered arrives, and room comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from queenmq.storage.spool.reserve import RESERVE_BYTES
from tests.acceptance.load import Wire
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.own_postgres import OwnPostgres
from tests.support.producers import pop_all
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.slow

_PARTITIONS = 4
_PADDING = "x" * 8_000


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    with small_disk(RESERVE_BYTES + 2 * 1024 * 1024) as made:
        yield made


def _start(server: OwnPostgres, disk: SmallDisk) -> BrokerProcess:
    # Nobody reads the pipe of a running broker, and an outage makes many warnings.
    words = ["--log-level", "error", "--database-url", server.url]
    return BrokerProcess(words, environ={"QUEEN_SPOOL_DIR": str(disk.path / "spool")})


async def _push_until_full(wire: Wire, queue: str, disk: SmallDisk) -> int:
    """Push until the disk takes no more, and let others take what is left of it."""
    number = 0
    while True:
        partition = f"p{number % _PARTITIONS}"
        answer = await wire.push(queue, [number, _PADDING], partition=partition)
        if answer.status == 503:
            break
        assert answer.status == 202, answer
        number += 1
    disk.fill()
    assert disk.free_bytes == 0
    return number


async def _assert_delivered(broker: BrokerProcess, queue: str, count: int) -> None:
    found = await pop_all(broker.url, queue, count)
    numbers = {name: [value[0] for value in values] for name, values in found.items()}
    assert numbers == {f"p{n}": list(range(n, count, _PARTITIONS)) for n in range(_PARTITIONS)}


@pytest.mark.parametrize("is_killed", [False, True], ids=["running", "killed"])
async def test_everything_drains_while_the_disk_stays_full(
    is_killed: bool, server: OwnPostgres, disk: SmallDisk
) -> None:
    broker, queue = await asyncio.to_thread(_start, server, disk), unique()
    try:
        async with Wire(broker.url) as wire:
            await asyncio.to_thread(server.stop)
            count = await _push_until_full(wire, queue, disk)
            assert count > 100
        if is_killed:
            broker.kill()
        await asyncio.to_thread(server.start)
        if is_killed:
            broker = await asyncio.to_thread(_start, server, disk)
        await _assert_delivered(broker, queue, count)
        await wait_until_async(
            lambda: disk.free_bytes > count * len(_PADDING),
            timeout_s=SOON_S,
            what="the room to come back",
        )
        async with Wire(broker.url) as wire:
            assert (await wire.push(queue, "after")).status == 201
    finally:
        server.close()
        broker.stop()


async def test_pushes_go_on_once_room_is_made(server: OwnPostgres, disk: SmallDisk) -> None:
    disk.take(256 * 1024)
    broker, queue = await asyncio.to_thread(_start, server, disk), unique()
    try:
        async with Wire(broker.url) as wire:
            await asyncio.to_thread(server.stop)
            count = await _push_until_full(wire, queue, disk)
            disk.make_room()
            partition = f"p{count % _PARTITIONS}"
            answer = await wire.push(queue, [count, ""], partition=partition)
            assert answer.status == 202, answer
            await asyncio.to_thread(server.start)
            await _assert_delivered(broker, queue, count + 1)
    finally:
        server.close()
        broker.stop()
