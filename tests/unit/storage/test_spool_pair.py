"""The spool of a broker before and after it knows its database."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from queenmq.storage.spool.pair import EARLY, SpoolPair


@contextlib.asynccontextmanager
async def opened(home: Path, database_id: str | None) -> AsyncIterator[SpoolPair]:
    pair = SpoolPair(home, bytes_max=1_000_000)
    await pair.open(database_id)
    try:
        yield pair
    finally:
        await pair.close()


async def drain(pair: SpoolPair, count: int = 100) -> list[bytes]:
    """Read until nothing is left, or up to this much."""
    assert await pair.try_lead()
    bodies: list[bytes] = []
    while pair.pending and len(bodies) < count:
        batch = await pair.read(records_max=2, bytes_max=1_000)
        bodies += batch.bodies
        await pair.advance(batch.end)
    await pair.release_lead()
    return bodies


async def test_known_database_has_its_own_directory_alone(tmp_path: Path) -> None:
    async with opened(tmp_path, "one") as pair:
        await pair.append(b"a")
        assert (pair.pending, pair.stats().pending_records) == (1, 1)
    assert [entry.name for entry in tmp_path.iterdir()] == ["one"]
    async with opened(tmp_path, "two") as pair:
        assert pair.pending == 0


async def test_early_records_are_drained_when_the_database_is_known(tmp_path: Path) -> None:
    async with opened(tmp_path, None) as pair:
        await pair.append(b"a")
        await pair.open("one")
        # Behind the first, wherever that is.
        await pair.append(b"b")
        assert await drain(pair) == [b"a", b"b"]
        await pair.append(b"c")
    async with opened(tmp_path, "one") as pair:
        assert await drain(pair) == [b"c"]


async def test_what_is_kept_for_the_database_is_older_than_what_came_early(tmp_path: Path) -> None:
    async with opened(tmp_path, "one") as pair:
        for body in (b"a", b"b", b"c"):
            await pair.append(body)
    for body in (b"d", b"e"):
        # Two starts without the database.
        async with opened(tmp_path, None) as pair:
            await pair.append(body)
    async with opened(tmp_path, "one") as pair:
        assert pair.pending == 5
        assert await drain(pair, 2) == [b"a", b"b"]
        await pair.append(b"f")
        assert await drain(pair) == [b"c", b"d", b"e", b"f"]
        assert (tmp_path / EARLY).exists() and pair.pending == 0


async def test_processes_of_one_broker_see_the_same(tmp_path: Path) -> None:
    async with opened(tmp_path, None) as first, opened(tmp_path, None) as second:
        await first.append(b"a")
        assert second.pending == 1
        await first.open("one")
        assert await first.try_lead() and not await second.try_lead()
        await first.release_lead()
        await second.open("one")
        assert await drain(second) == [b"a"]
        assert first.pending == 0


async def test_record_is_set_aside_where_it_came_from(tmp_path: Path) -> None:
    async with opened(tmp_path, None) as pair:
        await pair.append(b"bad")
        await pair.open("one")
        assert await pair.try_lead()
        batch = await pair.read(records_max=1, bytes_max=100)
        await pair.set_aside(batch.bodies[0], "no good")
        await pair.advance(batch.end)
        assert pair.stats().aside_records == 1
    assert list((tmp_path / EARLY / "aside").iterdir())


def test_its_id_stays_with_the_directory_and_is_the_same_for_all_processes(tmp_path: Path) -> None:
    home, barrier = tmp_path / "spool", threading.Barrier(8)
    home.mkdir()

    def ask(_: int) -> str | None:
        barrier.wait()
        return SpoolPair(home, bytes_max=1).identify(makes_one=True)

    assert SpoolPair(home, bytes_max=1).identify(makes_one=False) is None

    with ThreadPoolExecutor(8) as pool:
        (found,) = set(pool.map(ask, range(8)))
    assert [one.name for one in home.iterdir()] == ["id"]
    moved = home.rename(tmp_path / "elsewhere")
    assert SpoolPair(moved, bytes_max=1).identify(makes_one=False) == found
    home.mkdir()
    assert SpoolPair(home, bytes_max=1).identify(makes_one=True) != found
