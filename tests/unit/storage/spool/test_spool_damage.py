"""After a crash, a full disk or a failing one, no answered record is lost silently."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from queenmq.errors import SpoolFailed
from queenmq.storage.spool import Spool
from queenmq.storage.spool.aside import Aside
from queenmq.storage.spool.framing import encode
from tests.support.spools import child, drain_all, lines, opened, segment_files

BODIES = [b"first", b"second", b"third one", b"last"]
#: Where the last two records begin.
FROM_THIRD = sum(len(encode(body)) for body in BODIES[:2])
LENGTH = sum(len(encode(body)) for body in BODIES)


async def filled(path: Path, bodies: list[bytes] = BODIES, *, segment_bytes: int = 4096) -> None:
    async with opened(path, segment_bytes=segment_bytes) as spool:
        for body in bodies:
            await spool.append(body)


def survivors(offset: int) -> list[bytes]:
    """The records that lie wholly in front of an offset."""
    kept: list[bytes] = []
    end = 0
    for body in BODIES:
        end += len(encode(body))
        if end <= offset:
            kept.append(body)
    return kept


@pytest.mark.parametrize("offset", range(FROM_THIRD, LENGTH))
async def test_a_file_cut_anywhere_keeps_the_records_before(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "spool"
    await filled(path)
    os.truncate(segment_files(path)[0], offset)
    async with opened(path) as spool:
        assert spool.pending == len(survivors(offset))
        await spool.append(b"new")
        assert await drain_all(spool) == [*survivors(offset), b"new"]


@pytest.mark.parametrize("offset", range(FROM_THIRD, LENGTH))
async def test_a_byte_changed_anywhere_keeps_the_records_before(
    tmp_path: Path, offset: int
) -> None:
    path = tmp_path / "spool"
    await filled(path)
    segment = segment_files(path)[0]
    content = bytearray(segment.read_bytes())
    content[offset] ^= 0x10
    segment.write_bytes(content)
    kept = survivors(offset)
    async with opened(path) as spool:
        await spool.append(b"new")
        assert await drain_all(spool) == [*kept, b"new"]
        assert spool.stats().aside_records == 1
    # Nothing is gone for good: the copy holds all bytes that were cut, later records included.
    (entry,) = Aside(path / "aside").entries()
    copied = (path / "aside" / entry.file).read_bytes()
    assert copied == content[sum(len(encode(body)) for body in kept) :]


async def test_damage_in_the_middle_loses_no_later_segment(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    bodies = [b"%02d" % number + bytes(98) for number in range(12)]
    await filled(path, bodies, segment_bytes=324)
    first, second, *_ = segment_files(path)
    content = bytearray(second.read_bytes())
    content[150] ^= 1
    second.write_bytes(content)
    async with opened(path) as spool:
        # The second segment's first record is whole, its other two are not reached.
        assert spool.pending == 10
        await spool.append(b"new")
        assert await drain_all(spool) == [*bodies[:4], *bodies[6:], b"new"]
        assert spool.stats().aside_records == 1
    (entry,) = Aside(path / "aside").entries()
    assert (path / "aside" / entry.file).read_bytes() == content[108:]
    assert "segment 2 from byte 108" in entry.reason
    assert not first.exists()


async def test_damage_is_found_while_the_spool_is_open(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    async with opened(path, segment_bytes=324) as spool:
        bodies = [b"%02d" % number + bytes(98) for number in range(8)]
        for body in bodies:
            await spool.append(body)
        for segment in segment_files(path)[1:]:
            content = bytearray(segment.read_bytes())
            content[150] ^= 1
            segment.write_bytes(content)
        # In the second segment and in the last, which still grows.
        await spool.try_lead()
        for body in bodies[:4]:
            batch = await spool.read(records_max=1, bytes_max=1)
            assert batch.bodies == [body]
            await spool.advance(batch)
        assert (await spool.read(records_max=1, bytes_max=1)).bodies == [bodies[6]]
        assert (spool.pending, spool.pending_bytes) == (1, 108)
        assert await drain_all(spool) == [bodies[6]]
        assert spool.stats().aside_records == 2
        await spool.append(b"new")
        assert await drain_all(spool) == [b"new"]


async def test_a_spool_of_nothing_but_damage_can_be_drained(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    await filled(path, [bytes(100)] * 4, segment_bytes=216)
    first, second = segment_files(path)
    first.write_bytes(b"\xff" * 216)
    second.write_bytes(b"\xff" * 216)
    async with opened(path) as spool:
        assert spool.pending == 1
        assert await drain_all(spool) == []
        assert spool.stats().aside_records == 2


async def test_a_segment_that_disappears_does_not_stop_the_spool(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    async with opened(path) as spool:
        await spool.append(b"lost")
        segment_files(path)[0].unlink()
        await spool.append(b"kept")
        assert await drain_all(spool) == [b"kept"]
        await spool.append(b"lost")
        os.truncate(segment_files(path)[-1], 3)
        await spool.append(b"kept as well")
        assert await drain_all(spool) == [b"kept as well"]
    async with opened(path) as spool:
        assert spool.pending == 0


async def test_without_a_cursor_everything_there_is_drained_again(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    async with opened(path) as spool:
        await spool.append(b"drained")
        await spool.append(b"pending")
        assert await spool.try_lead()
        await spool.advance(await spool.read(records_max=1, bytes_max=100_000))
    (path / "cursor").write_bytes(bytes(100))
    async with opened(path) as spool:
        assert await drain_all(spool) == [b"drained", b"pending"]


async def test_the_state_is_made_again_from_the_files(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    await filled(path)
    (path / "state").write_bytes(b"\xff" * 10_000)
    async with opened(path) as spool:
        assert spool.pending == 4
        assert spool.pending_bytes == LENGTH
        assert await drain_all(spool) == BODIES


async def test_a_state_of_another_layout_in_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    async with opened(path) as spool:
        await spool.append(b"body")
        with (path / "state").open("r+b") as file:
            file.write(b"QNSTATE2")
        with pytest.raises(SpoolFailed, match="another version"):
            await Spool(path, bytes_max=1000).open()


async def test_bytes_of_a_dead_process_are_cut_before_the_next_append(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    # The second append does not fit beside the first: its segment is left, and cut nevertheless.
    async with opened(path, segment_bytes=100) as spool:
        for body in (b"a", bytes(95), b"b"):
            await spool.append(body)
            with segment_files(path)[-1].open("ab") as file:
                file.write(encode(b"ghost") + b"torn")
        await spool.append(b"end")
        assert spool.pending == 4
        assert await drain_all(spool) == [b"a", bytes(95), b"b", b"end"]
        assert spool.stats().aside_records == 0


async def test_a_failed_write_fails_its_appends_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    with child("fill", path) as process:
        reports = list(lines(process))
    at = reports.index("full")
    assert at > 10 and len(reports) == at + 2
    async with opened(path) as spool:
        numbers = [body.split()[0].decode() for body in await drain_all(spool)]
        assert numbers == [report for report in reports if report != "full"]
        assert spool.stats().aside_records == 0


@pytest.mark.parametrize("before", [0, 1, 3])
async def test_after_a_failed_sync_a_new_segment_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    path = tmp_path / "spool"
    real = os.fdatasync

    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with opened(path) as spool:
        for number in range(before):
            await spool.append(b"%d" % number)
        for _ in range(2):
            monkeypatch.setattr(os, "fdatasync", failing)
            appends = (spool.append(b"failed") for _ in range(5))
            answers = await asyncio.gather(*appends, return_exceptions=True)
            assert [type(answer) for answer in answers] == [SpoolFailed] * 5
            assert "Input/output error" in str(answers[0])
            monkeypatch.setattr(os, "fdatasync", real)
        assert spool.pending == before
        expected = [b"%d" % number for number in range(before)]
        segments = len(segment_files(path))
        if before == 1:
            # Draining right up to where the given-up segment was cut.
            assert await drain_all(spool) == expected
            expected = []
        await spool.append(b"after")
        assert before == 1 or len(segment_files(path)) == segments + 1
        assert await drain_all(spool) == [*expected, b"after"]
    async with opened(path) as spool:
        assert spool.pending == 0


async def test_a_failed_sync_of_the_cursor_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with opened(tmp_path / "spool") as spool:
        await spool.append(b"a")
        await spool.try_lead()
        batch = await spool.read(records_max=1, bytes_max=1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", failing)
            with pytest.raises(SpoolFailed, match="cursor"):
                await spool.advance(batch)
        assert spool.pending == 1
        assert await drain_all(spool) == [b"a"]
