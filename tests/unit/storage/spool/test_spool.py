"""One spool in one process: order, bounds, group commit, leading, setting aside, permissions."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from queenmq.errors import RequestTooLarge, SpoolFailed, SpoolFull
from queenmq.storage.spool import Phase, Spool, SpoolStats
from queenmq.storage.spool import spool as spool_module
from queenmq.storage.spool.aside import Aside
from tests.support.spools import drain_all, opened, segment_files


async def test_records_are_drained_in_the_order_of_their_appends(tmp_path: Path) -> None:
    bodies = [f"{number}".encode() * (number % 50) for number in range(500)]
    async with opened(tmp_path / "spool") as spool:
        await asyncio.gather(*map(spool.append, bodies))
        assert spool.pending == 500
        assert spool.pending_bytes == sum(len(body) + 8 for body in bodies)
        assert await drain_all(spool) == bodies
        assert spool.stats() == SpoolStats(0, 0, 0, 0)


async def test_a_batch_keeps_its_limits_but_holds_at_least_one_record(tmp_path: Path) -> None:
    async with opened(tmp_path / "spool") as spool:
        for size in (10, 10, 10, 9000, 10):
            await spool.append(bytes(size))
        assert await spool.try_lead()

        async def sizes(records_max: int, bytes_max: int) -> list[int]:
            batch = await spool.read(records_max=records_max, bytes_max=bytes_max)
            return [len(body) for body in batch.bodies]

        assert await sizes(2, 1000) == [10, 10]
        assert await sizes(100, 20) == [10, 10]
        assert await sizes(100, 19) == [10]
        assert await sizes(100, 1) == [10]
        await spool.advance((await spool.read(records_max=3, bytes_max=1000)).end)
        assert await sizes(100, 1) == [9000]
        assert await sizes(100, 9009) == [9000]
        assert await sizes(100, 9010) == [9000, 10]


async def test_a_batch_can_be_drained_in_parts(tmp_path: Path) -> None:
    async with opened(tmp_path / "spool") as spool:
        for body in (b"a", b"b", b"c"):
            await spool.append(body)
        assert await spool.try_lead()
        batch = await spool.read(records_max=10, bytes_max=1000)
        await spool.advance(batch.positions[0])
        assert (spool.pending, spool.pending_bytes) == (2, 18)
        await spool.advance(batch.positions[1])
        await spool.advance(batch.positions[0])
        assert spool.pending == 1
        assert (await spool.read(records_max=10, bytes_max=1000)).bodies == [b"c"]


async def test_a_cursor_behind_the_end_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path / "long") as long, opened(tmp_path / "short") as short:
        await long.append(bytes(100))
        await long.try_lead()
        await short.try_lead()
        batch = await long.read(records_max=1, bytes_max=1)
        with pytest.raises(ValueError, match="the spool ends at"):
            await short.advance(batch)


async def test_drained_segments_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    async with opened(path, segment_bytes=1000) as spool:
        for _ in range(10):
            await spool.append(bytes(400))
        assert [file.stat().st_size for file in segment_files(path)] == [816] * 5
        await drain_all(spool, records_max=3)
        assert segment_files(path) == []
        await spool.append(b"next")
        assert await drain_all(spool) == [b"next"]


async def test_an_append_over_the_bound_is_refused_until_there_is_room(tmp_path: Path) -> None:
    async with opened(tmp_path / "spool", bytes_max=250) as spool:
        await spool.append(bytes(100))
        await spool.append(bytes(100))
        with pytest.raises(SpoolFull, match="216 of 250 bytes"):
            await spool.append(bytes(27))
        await spool.append(bytes(26))
        assert len(await drain_all(spool)) == 3
        await spool.append(bytes(242))


async def test_a_full_spool_refuses_only_what_does_not_fit(tmp_path: Path) -> None:
    async with opened(tmp_path / "spool", bytes_max=100) as spool:
        sizes = [80, 80, 4]
        appends = (spool.append(bytes(size)) for size in sizes)
        answers = await asyncio.gather(*appends, return_exceptions=True)
        assert [type(answer) for answer in answers] == [type(None), SpoolFull, type(None)]
        assert [len(body) for body in await drain_all(spool)] == [80, 4]


async def test_the_bound_holds_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path / "spool", bytes_max=250) as spool:
        await spool.append(bytes(200))
    async with opened(tmp_path / "spool", bytes_max=250) as spool:
        with pytest.raises(SpoolFull):
            await spool.append(bytes(100))


async def test_a_body_too_large_for_any_record_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "BODY_BYTES_MAX", spool_module.ENTRY_BYTES_EXTRA + 10)
    async with opened(tmp_path / "spool") as spool:
        with pytest.raises(RequestTooLarge):
            await spool.append(bytes(11))
        await spool.append(bytes(10))


async def test_concurrent_appends_share_their_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = 0
    real = os.fdatasync

    def counted(descriptor: int) -> None:
        nonlocal syncs
        syncs += 1
        real(descriptor)

    async with opened(tmp_path / "spool", segment_bytes=1024 * 1024) as spool:
        monkeypatch.setattr(os, "fdatasync", counted)
        await asyncio.gather(*(spool.append(b"body") for _ in range(1000)))
        # The first goes alone or with some; all that came meanwhile go together.
        assert 1 <= syncs <= 3
        await spool.append(b"body")
        await spool.append(b"body")
        assert syncs <= 5


async def test_an_append_returns_only_after_its_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fdatasync

    def noted(descriptor: int) -> None:
        real(descriptor)
        synced.append(os.fstat(descriptor).st_size)

    async with opened(tmp_path / "spool") as spool:
        monkeypatch.setattr(os, "fdatasync", noted)
        for number in range(1, 4):
            await spool.append(bytes(12))
            assert synced == [20 * count for count in range(1, number + 1)]


async def test_an_append_given_up_by_its_caller_harms_no_other(tmp_path: Path) -> None:
    async with opened(tmp_path / "spool") as spool:
        tasks = [asyncio.create_task(spool.append(b"%d" % number)) for number in range(20)]
        await spool.append(b"first")
        tasks.append(asyncio.create_task(spool.append(b"20")))
        # One is being written, the other waits for its group, or is done: all must be harmless.
        tasks[3].cancel()
        tasks[20].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await spool.append(b"last")
        left = [body for body in await drain_all(spool) if body not in (b"3", b"20")]
        kept = [b"%d" % number for number in range(20) if number != 3]
        assert left == [b"first", *kept, b"last"]


async def test_closing_writes_what_was_appended(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", bytes_max=10_000)
    await spool.open()
    tasks = [asyncio.create_task(spool.append(b"%d" % number)) for number in range(50)]
    waiting = asyncio.gather(*tasks)
    await spool.append(b"last")
    await spool.close()
    await waiting
    with pytest.raises(SpoolFailed, match="is closed"):
        await spool.append(b"late")
    async with opened(tmp_path / "spool") as again:
        assert len(await drain_all(again)) == 51


async def test_one_leads_at_a_time(tmp_path: Path) -> None:
    async with opened(tmp_path / "spool") as one, opened(tmp_path / "spool") as other:
        assert await one.try_lead()
        assert await one.try_lead()
        assert not await other.try_lead()
        with pytest.raises(RuntimeError, match="try_lead"):
            await other.read(records_max=1, bytes_max=1)
        with pytest.raises(RuntimeError, match="try_lead"):
            await other.advance((await one.read(records_max=1, bytes_max=1)).end)
        await one.release_lead()
        assert await other.try_lead()
        assert not await one.try_lead()


async def test_all_who_share_a_spool_see_its_state(tmp_path: Path) -> None:
    async with opened(tmp_path / "spool") as one, opened(tmp_path / "spool") as other:
        await one.append(b"a")
        await other.append(b"b")
        assert one.pending == other.pending == 2
        await one.try_lead()
        await one.set_phase(Phase.CLOSING)
        assert other.phase is Phase.CLOSING
        assert await drain_all(one) == [b"a", b"b"]
        assert other.pending == 0
        await one.set_phase(Phase.OPEN)
        assert other.phase is Phase.OPEN


async def test_a_new_leader_clears_the_flag_that_the_last_one_left(tmp_path: Path) -> None:
    async with opened(tmp_path / "spool") as one, opened(tmp_path / "spool") as other:
        await one.try_lead()
        await one.set_phase(Phase.CLOSING)
        await one.release_lead()
        assert other.phase is Phase.CLOSING
        await other.try_lead()
        assert one.phase is Phase.OPEN


async def test_what_is_set_aside_is_kept_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    async with opened(path) as spool:
        await spool.append(b"good")
        await spool.set_aside(b"refused", "no such queue")
        await spool.set_aside(b"\x00\xff", "x" * 10_000)
        assert spool.stats() == SpoolStats(1, 12, aside_records=2, aside_bytes=9)
    async with opened(path) as spool:
        assert spool.stats() == SpoolStats(1, 12, aside_records=2, aside_bytes=9)
        await spool.set_aside(b"third", "after a restart")
        assert spool.stats().aside_records == 3
    entries = list(Aside(path / "aside").entries())
    assert [entry.body for entry in entries] == [b"refused", b"\x00\xff", b"third"]
    assert entries[0].reason == "no such queue"


async def test_only_the_owner_can_read_a_spool(tmp_path: Path) -> None:
    path = tmp_path / "new" / "spool"
    before = os.umask(0)
    try:
        async with opened(path) as spool:
            await spool.append(b"secret")
            await spool.set_aside(b"secret", "reason")
            await drain_all(spool)
    finally:
        os.umask(before)
    for name in [path, *path.rglob("*")]:
        mode = stat.S_IMODE(name.stat().st_mode)
        assert mode == (0o700 if name.is_dir() else 0o600), name


async def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(SpoolFailed, match="cannot be opened"):
        await Spool(tmp_path / "file" / "spool", bytes_max=1).open()
