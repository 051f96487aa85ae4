"""Records set aside go back into the spool: in order, once, and never lost on the way."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from queenmq.errors import Conflict, SpoolFull
from queenmq.storage.spool import Spool, SpoolStats
from queenmq.storage.spool.aside import Aside
from queenmq.storage.spool.aside_retry import AsideRetry
from queenmq.storage.spool.framing import encode
from tests.support.small_disk import small_disk
from tests.support.spools import child, drain_all, lines, opened


async def _set_aside(spool: Spool, *bodies: bytes) -> None:
    for body in bodies:
        await spool.set_aside(body, f"why {body.decode()}")


def _is_usable(body: bytes) -> bool:
    return not body.startswith(b"odd")


async def test_records_go_behind_everything_else_in_their_order(tmp_path: Path) -> None:
    async with opened(tmp_path / "spool") as spool:
        await _set_aside(spool, b"one", b"two")
        await spool.append(b"before")
        assert await spool.retry_aside(_is_usable) == (2, 0, None)
        assert spool.stats().aside_records == spool.stats().aside_bytes == 0
        assert await drain_all(spool) == [b"before", b"one", b"two"]
        assert await spool.retry_aside(_is_usable) == (0, 0, None)
        await _set_aside(spool, b"three")
        assert await spool.retry_aside(_is_usable) == (1, 0, None)
    async with opened(tmp_path / "spool") as spool:
        assert await drain_all(spool) == [b"three"]


async def test_what_cannot_be_used_stays(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    async with opened(path) as spool:
        await spool.append(b"damaged")
    with next(path.glob("*.log")).open("r+b") as segment:
        segment.write(b"\xff")
    async with opened(path) as spool:
        await _set_aside(spool, b"odd one", b"good", b"odd two")
        assert await spool.retry_aside(_is_usable) == (1, 3, None)
        assert spool.stats().aside_records == 3
    async with opened(path) as spool:
        assert spool.stats().aside_records == 3
        shown = [entry for _, entry in await spool.list_aside(limit=10, offset=0)]
        assert [entry.body for entry in shown] == [b"", b"odd one", b"odd two"]
        assert shown[0].file and shown[1].reason == "why odd one"
        assert [entry.body for _, entry in await spool.list_aside(limit=1, offset=1)] == [
            b"odd one"
        ]


async def test_full_spool_takes_what_fits_and_the_rest_stays(tmp_path: Path) -> None:
    async with opened(tmp_path / "spool", bytes_max=250) as spool:
        await _set_aside(spool, b"a" * 100, b"b" * 100, b"c" * 100)
        done = await spool.retry_aside(_is_usable)
        assert (done.retried, spool.stats().aside_records) == (2, 1)
        assert isinstance(done.stopped_by, SpoolFull)
        assert await drain_all(spool) == [b"a" * 100, b"b" * 100]
        assert await spool.retry_aside(_is_usable) == (1, 0, None)


async def test_killed_in_between_leaves_records_in_both_places(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    async with opened(path) as spool:
        await _set_aside(spool, b"one", b"two")
    with child("retry", path) as process:
        assert list(lines(process)) == []
    async with opened(path) as spool:
        assert spool.stats() == SpoolStats(2, 22, aside_records=2, aside_bytes=6)
        assert await spool.retry_aside(_is_usable) == (2, 0, None)
        # The duplicate check by transaction id drops the second pair.
        assert await drain_all(spool) == [b"one", b"two", b"one", b"two"]
        assert spool.stats().aside_records == 0


async def test_records_set_aside_meanwhile_are_kept(tmp_path: Path) -> None:
    async with (
        opened(tmp_path / "spool") as spool,
        opened(tmp_path / "spool") as other,
    ):
        await _set_aside(spool, b"one")
        retry = AsideRetry(spool._files, _is_usable)
        (number,) = spool._files.aside.numbers()
        retry._seal(number)
        await _set_aside(other, b"two")
        assert retry.run_segment(number).retried == 1
        assert [entry.body for _, entry in await other.list_aside(limit=9, offset=0)] == [b"two"]
        assert spool.stats().aside_records == 1


async def test_two_at_once_are_one_too_many(tmp_path: Path) -> None:
    async with (
        opened(tmp_path / "spool") as spool,
        opened(tmp_path / "spool") as other,
    ):
        await _set_aside(spool, b"one")
        with AsideRetry(spool._files, _is_usable).retry_alone(), pytest.raises(Conflict):
            await other.retry_aside(_is_usable)
        assert await other.retry_aside(_is_usable) == (1, 0, None)


async def test_torn_end_of_the_log_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    async with opened(path) as spool:
        await _set_aside(spool, b"one")
    (log,) = (path / "aside").glob("*.log")
    with log.open("ab") as file:
        file.write(b"torn")
    async with opened(path) as spool:
        assert await spool.retry_aside(_is_usable) == (1, 0, None)
        assert spool.stats().aside_records == 0
    assert log.read_bytes() == b"torn"


async def test_full_disk_keeps_records_where_they_are() -> None:
    with small_disk(2 * 1024 * 1024) as disk:
        async with opened(disk.path / "spool", segment_bytes=1024 * 1024) as spool:
            await _set_aside(spool, b"x" * 50_000)
            disk.fill()
            done = await spool.retry_aside(_is_usable)
            assert done.retried == 0 and "No space" in str(done.stopped_by)
            assert spool.stats().aside_records == 1
            disk.make_room()
            assert await spool.retry_aside(_is_usable) == (1, 0, None)
            assert await drain_all(spool) == [b"x" * 50_000]


def test_entries_of_an_older_version_are_read(tmp_path: Path) -> None:
    """They name neither a time nor a start."""
    old = {"reason": "no such queue", "size_bytes": 3, "body": b"one", "file": ""}
    (tmp_path / f"{1:020}.log").write_bytes(encode(msgspec.msgpack.encode(old)))
    (entry,) = Aside(tmp_path).entries()
    assert (entry.body, entry.at_ms, entry.start) == (b"one", 0, 0)
