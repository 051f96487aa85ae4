"""The spool of a broker: one directory per database, and one until the database is known.

A broker that starts while its database is away does not know which one that is. Pushes that it
accepts then go to `early`. As soon as the database is known, its own directory is opened as well.
It is drained first, because its records are older, and used once `early` is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from queenmq.storage.spool import (
    AsideEntry,
    Phase,
    Place,
    Position,
    Retried,
    Spool,
    SpoolBatch,
    SpoolStats,
)
from queenmq.storage.spool.files import failing_as
from queenmq.storage.spool.identity import find_identity, make_identity

#: No database has this id.
EARLY = "early"


class SpoolPair:
    """Both directories as one spool, shared with other processes of the broker.

    `early` is opened when the database is not known, and when it is there already.
    """

    def __init__(self, home: Path, *, bytes_max: int) -> None:
        self._home = home
        self._bytes_max = bytes_max
        self._named: Spool | None = None
        self._early: Spool | None = None
        #: Where the last batch came from. Batches of the two are never mixed.
        self._source: Spool | None = None

    async def open(self, database_id: str | None) -> None:
        """Open the directories: without a database, only `early`."""
        if self._early is None and (database_id is None or (self._home / EARLY).exists()):
            self._early = await self._open(EARLY)
        if self._named is None and database_id is not None:
            self._named = await self._open(database_id)

    async def close(self) -> None:
        for spool in self._spools():
            await spool.close()

    async def append(self, body: bytes) -> None:
        """Return when the body is on disk, behind everything that was appended before."""
        spool = self._named
        if spool is None or (self._early is not None and self._early.pending):
            spool = self._early
        assert spool is not None, "the spool is not open"
        await spool.append(body)

    @property
    def home(self) -> Path:
        """Return the parent of its directories, in full."""
        return self._home.resolve()

    def identify(self, *, makes_one: bool) -> str | None:
        """Return the id that stays with its directories, None where it has none. Blocks for a file.

        Raises SpoolFailed.
        """
        with failing_as(f"spool {self._home} cannot be identified"):
            return make_identity(self._home) if makes_one else find_identity(self._home)

    @property
    def pending(self) -> int:
        """Records that are not drained. Every push asks, so this goes through no list."""
        pending = 0 if self._named is None else self._named.pending
        return pending if self._early is None else pending + self._early.pending

    @property
    def phase(self) -> Phase:
        """Return the phase that the draining process announced last."""
        phases = {spool.phase for spool in self._spools()}
        return next((one for one in (Phase.STUCK, Phase.CLOSING) if one in phases), Phase.OPEN)

    def stats(self) -> SpoolStats:
        """Return counters of both."""
        stats = [spool.stats() for spool in self._spools()]
        return SpoolStats(
            pending_records=sum(one.pending_records for one in stats),
            pending_bytes=sum(one.pending_bytes for one in stats),
            aside_records=sum(one.aside_records for one in stats),
            aside_bytes=sum(one.aside_bytes for one in stats),
            is_stuck=any(one.is_stuck for one in stats),
        )

    async def try_lead(self) -> bool:
        """Become the one process that drains, unless another is."""
        led: list[Spool] = []
        for spool in self._spools():
            if not await spool.try_lead():
                for one in led:
                    await one.release_lead()
                return False
            led.append(spool)
        return True

    async def release_lead(self) -> None:
        for spool in self._spools():
            await spool.release_lead()

    async def read(self, *, records_max: int, bytes_max: int) -> SpoolBatch:
        """Return records from the front, at least one if there is one."""
        if self._source is None or not self._source.pending:
            spools = self._spools()
            self._source = next((spool for spool in spools if spool.pending), spools[0])
        return await self._source.read(records_max=records_max, bytes_max=bytes_max)

    async def advance(self, to: SpoolBatch | Position) -> None:
        """Make draining of the last batch, or of its part up to a position, durable."""
        assert self._source is not None, "nothing was read"
        await self._source.advance(to)

    async def set_phase(self, phase: Phase) -> None:
        for spool in self._spools():
            await spool.set_phase(phase)

    async def set_aside(self, body: bytes, reason: str) -> None:
        """Keep a record of the last batch that cannot be pushed."""
        assert self._source is not None, "nothing was read"
        await self._source.set_aside(body, reason)

    async def list_aside(self, *, limit: int, offset: int) -> list[tuple[Place, AsideEntry]]:
        """Return a page of records set aside, oldest first in each directory."""
        found: list[tuple[Place, AsideEntry]] = []
        for spool in self._spools():
            found += await spool.list_aside(limit=limit + offset, offset=0)
        return found[offset : offset + limit]

    async def retry_aside(self, is_usable: Callable[[bytes], bool]) -> Retried:
        """Put usable records that were set aside behind everything else. Raises Conflict."""
        retried = unreadable = 0
        for spool in self._spools():
            one = await spool.retry_aside(is_usable)
            retried, unreadable = retried + one.retried, unreadable + one.unreadable
            if one.stopped_by is not None:
                return Retried(retried, unreadable, one.stopped_by)
        return Retried(retried, unreadable, None)

    def _spools(self) -> list[Spool]:
        """Return those that are open, in the order in which they are drained."""
        return [spool for spool in (self._named, self._early) if spool is not None]

    async def _open(self, name: str) -> Spool:
        spool = Spool(self._home / name, bytes_max=self._bytes_max)
        await spool.open()
        return spool
