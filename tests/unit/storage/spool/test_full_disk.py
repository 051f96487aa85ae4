"""A spool on a disk without a free page: it empties all the same, and starts again."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from queenmq.errors import SpoolFailed
from queenmq.storage.spool import Spool
from queenmq.storage.spool.aside import Aside
from queenmq.storage.spool.reserve import RESERVE_BYTES
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.spools import child, drain_all, lines, opened, segment_files

_DISK_BYTES = RESERVE_BYTES + 512 * 1024
_SEGMENT_BYTES = 64 * 1024


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    with small_disk(_DISK_BYTES) as made:
        yield made


def _body(number: int) -> bytes:
    return f"{number} ".encode() + bytes(3_000)


async def _append_until_full(spool: Spool, disk: SmallDisk) -> list[bytes]:
    """Append until nothing fits, with the last pages taken by others."""
    taken: list[bytes] = []
    with contextlib.suppress(SpoolFailed):
        while True:
            await spool.append(_body(len(taken)))
            taken.append(_body(len(taken)))
    disk.fill()
    assert disk.free_bytes == 0
    assert len(taken) > 20
    return taken


@pytest.mark.parametrize("segment_bytes", [_SEGMENT_BYTES, 16 * 1024 * 1024])
async def test_full_spool_drains_and_frees_its_room(disk: SmallDisk, segment_bytes: int) -> None:
    path = disk.path / "spool"
    async with opened(path, segment_bytes=segment_bytes) as spool:
        taken = await _append_until_full(spool, disk)
        assert await drain_all(spool) == taken
        assert segment_files(path) == []
        assert disk.free_bytes > 3_000 * len(taken)
        await spool.append(b"after")
        assert await drain_all(spool) == [b"after"]


async def test_full_spool_is_opened_again_and_drained(disk: SmallDisk) -> None:
    path = disk.path / "spool"
    async with opened(path, segment_bytes=_SEGMENT_BYTES) as spool:
        taken = await _append_until_full(spool, disk)
    async with opened(path, segment_bytes=_SEGMENT_BYTES) as spool:
        assert spool.pending == len(taken)
        with pytest.raises(SpoolFailed):
            await spool.append(_body(0))
        assert await drain_all(spool) == taken
    async with opened(path) as spool:
        assert spool.pending == 0


async def test_room_that_is_made_is_used(disk: SmallDisk) -> None:
    disk.take(64 * 1024)
    async with opened(disk.path / "spool") as spool:
        taken = await _append_until_full(spool, disk)
        disk.make_room()
        await spool.append(b"after")
        assert await drain_all(spool) == [*taken, b"after"]


async def test_what_is_refused_is_set_aside_and_counted_on_a_full_disk(disk: SmallDisk) -> None:
    path = disk.path / "spool"
    async with opened(path) as spool:
        taken = await _append_until_full(spool, disk)
        assert await spool.try_lead()
        for number, body in enumerate(taken[:10]):
            batch = await spool.read(records_max=1, bytes_max=100_000)
            assert batch.bodies == [body]
            await spool.set_aside(body, f"reason {number}")
            await spool.advance(batch)
        assert await drain_all(spool) == taken[10:]
        assert spool.stats().aside_records == 10
    entries = list(Aside(path / "aside").entries())
    assert [entry.body for entry in entries] == taken[:10]


async def test_the_reserve_is_filled_again_once_there_is_room(disk: SmallDisk) -> None:
    path = disk.path / "spool"
    async with opened(path) as spool:
        reserve = path / "aside" / "reserve"
        assert reserve.stat().st_blocks * 512 >= RESERVE_BYTES
        taken = await _append_until_full(spool, disk)
        await spool.set_aside(taken[0], "no such queue")
        assert reserve.stat().st_blocks == 0
        disk.make_room()
        await drain_all(spool)
        assert reserve.stat().st_blocks * 512 >= RESERVE_BYTES or disk.free_bytes < RESERVE_BYTES


async def test_torn_end_does_not_keep_a_full_spool_from_starting(disk: SmallDisk) -> None:
    path, segment_bytes = disk.path / "spool", 16 * 1024 * 1024
    async with opened(path, segment_bytes=segment_bytes) as spool:
        taken = await _append_until_full(spool, disk)
    (last,) = segment_files(path)
    # As a process leaves it that is killed while it writes.
    os.truncate(last, last.stat().st_size - 1_000)
    # Room for an entry of the log, but not for a copy of what is torn.
    reserve = path / "aside" / "reserve"
    os.truncate(reserve, 0)
    reserve.write_bytes(bytes(4096))
    disk.fill()
    async with opened(path, segment_bytes=segment_bytes) as spool:
        assert await drain_all(spool) == taken[:-1]
        assert spool.stats().aside_records == 1
        assert segment_files(path) == []
    (entry,) = Aside(path / "aside").entries()
    kept = (path / "aside" / entry.file).read_bytes()[entry.start :]
    assert taken[-1].startswith(kept[8:]) and len(kept) == entry.size_bytes > 1_000


async def test_damage_that_finds_no_room_at_all_waits_and_spoils_nothing(disk: SmallDisk) -> None:
    path, segment_bytes = disk.path / "spool", 16 * 1024 * 1024
    disk.take(64 * 1024)
    async with opened(path, segment_bytes=segment_bytes) as spool:
        taken = await _append_until_full(spool, disk)
        (segment,) = segment_files(path)
        damaged = bytearray(segment.read_bytes())
        damaged[20] ^= 0xFF
        with segment.open("r+b") as file:
            file.write(damaged)
        os.truncate(path / "aside" / "reserve", 0)
        disk.fill()
        assert await spool.try_lead()
        for _ in range(3):
            with pytest.raises(SpoolFailed):
                await spool.read(records_max=1, bytes_max=100_000)
        assert spool.pending == len(taken)
        assert segment.read_bytes() == damaged
        disk.make_room()
        assert await drain_all(spool) == []
        assert spool.stats().aside_records == 1
    (entry,) = Aside(path / "aside").entries()
    assert (path / "aside" / entry.file).read_bytes()[entry.start :] == damaged


async def test_killed_on_a_full_disk_everything_answered_is_there(disk: SmallDisk) -> None:
    path = disk.path / "spool"
    with child("append", path, "a", 1_000_000) as process:
        answered = []
        for line in lines(process):
            answered.append(line)
            if len(answered) == 500:
                disk.fill()
        assert process.wait() != 0, "it ends with the error of the disk"
    disk.fill()
    with child("drain", path) as process:
        first = next(lines(process))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    async with opened(path) as spool:
        found = [body.decode() for body in await drain_all(spool, records_max=100)]
    assert first == answered[0]
    missing = set(answered) - set(found)
    # What the killed process had advanced past, it had drained before.
    assert missing <= set(answered[: len(missing)])
    assert found == sorted(found, key=lambda text: int(text.split()[1]))
    assert segment_files(path) == []


async def test_spool_of_an_older_version_gets_its_blocks_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    async with opened(path) as spool:
        await spool.append(b"one")
        await drain_all(spool)
    cursor = path / "cursor"
    content = cursor.read_bytes().rstrip(b"\0")
    cursor.write_bytes(content)
    async with opened(path) as spool:
        assert spool.pending == 0
    assert cursor.stat().st_size == 2 * 4096
    assert cursor.read_bytes().rstrip(b"\0") == content
