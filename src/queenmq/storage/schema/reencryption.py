"""Encrypts stored payloads with the current key, after a rotation or for plain ones.

It works in short transactions beside running brokers. Finished payloads need no more work, so it
can be stopped at any time and run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg

from queenmq.crypto.envelope import Place
from queenmq.crypto.vault import Vault
from queenmq.errors import DecryptionFailed, EncryptionKeyMissing
from queenmq.storage.connection.connecting import open_connection
from queenmq.storage.connection.driver_errors import translate_error
from queenmq.storage.sql_files import load_queries
from queenmq.storage.stores.access.audit import AuditEntry

#: Between two batches, so that pushes and pops come first.
_PAUSE_S = 0.01
#: The longest wait for a row. The next run finds rows that were skipped.
_LOCK_TIMEOUT_MS = 1_000
_FIRST = (UUID(int=0), 0)


class WaitingSpool(NamedTuple):
    """The spool of a broker with something in it, as the broker told last."""

    host: str
    directory: str
    waiting: int
    aside: int
    told_at: datetime


class Reencrypted(NamedTuple):
    """Counts of the payloads, by result."""

    encrypted: int
    #: Their key is missing, or they were changed. The first error says which one and why.
    unreadable: int
    #: Queued pushes under another key, or in clear.
    queued: int
    #: Spools whose pushes may be under another key. Only their brokers can read them.
    spools: Sequence[WaitingSpool]
    error: str | None


async def reencrypt(
    url: str,
    vault: Vault,
    *,
    queue: str | None,
    batch: int,
    on_progress: Callable[[int, int], None],
) -> Reencrypted:
    """Encrypt again, one queue or all. `on_progress` gets the number done and the total."""
    audit = load_queries("access/audit")
    async with open_connection(url) as connection:
        work = _Work(connection, vault, queue, batch, on_progress)
        with translate_error():
            await connection.execute(work.sql["settle_in"], f"{_LOCK_TIMEOUT_MS}ms")
            found = await work.run()
            entry = AuditEntry(
                "queen db reencrypt",
                "database",
                None,
                "payloads.reencrypt",
                f"queue {queue}" if queue else "all queues",
                f"{found.encrypted} encrypted, {found.unreadable} unreadable",
                "local",
                200,
            )
            await connection.execute(audit["add_entry"], *entry)
    return found


class _Work:
    def __init__(
        self,
        connection: asyncpg.Connection,
        vault: Vault,
        queue: str | None,
        batch: int,
        on_progress: Callable[[int, int], None],
    ) -> None:
        self._connection = connection
        self._vault = vault
        self._queue = queue
        self._batch = batch
        self._on_progress = on_progress
        self.sql = load_queries("schema/reencrypt")
        self._encrypted = self._unreadable = self._total = 0
        self._error: str | None = None

    async def run(self) -> Reencrypted:
        key = self._vault.current_id
        self._total = await self._connection.fetchval(self.sql["count_stale"], key, self._queue)
        for what in ("messages", "letters"):
            await self._go_through(what)
        # After the rest: what is stored meanwhile may be behind the place that was read.
        queued = await self._connection.fetchval(self.sql["count_queued"], key, self._queue)
        spools = [
            WaitingSpool(*row) for row in await self._connection.fetch(self.sql["list_spools"])
        ]
        return Reencrypted(self._encrypted, self._unreadable, queued, spools, self._error)

    async def _go_through(self, what: str) -> None:
        place: tuple[UUID, int] = _FIRST
        while True:
            self._on_progress(self._encrypted + self._unreadable, self._total)
            rows = await self._connection.fetch(
                self.sql[f"list_stale_{what}"],
                self._vault.current_id,
                self._queue,
                *place,
                self._batch,
            )
            if not rows:
                return
            await self._replace(what, rows)
            place = (rows[-1][0], rows[-1][1])
            await asyncio.sleep(_PAUSE_S)

    async def _replace(self, what: str, rows: list[asyncpg.Record]) -> None:
        pairs = [(row, sealed) for row in rows if (sealed := self._reseal(row)) is not None]
        if pairs:
            done = await self._connection.execute(
                self.sql[f"replace_{what}"],
                [row[0] for row, _ in pairs],
                [row[1] for row, _ in pairs],
                [row["payload"] for row, _ in pairs],
                [sealed for _, sealed in pairs],
            )
            self._encrypted += int(done.split()[-1])

    def _reseal(self, row: asyncpg.Record) -> str | None:
        place = Place(row["queue"], row["partition"], row["transaction_id"])
        payload = row["payload"]
        try:
            if row["is_encrypted"]:
                payload = self._vault.unseal(payload, place)
        except (EncryptionKeyMissing, DecryptionFailed) as error:
            self._unreadable += 1
            self._error = self._error or str(error)
            return None
        return self._vault.seal(payload, place)
