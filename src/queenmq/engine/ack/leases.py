"""Leases between pop and ack: extended while a consumer works, handed back when no caller wants
them.

Requests of many callers share few calls. A request whose cursor another session holds waits in a
lock queue, so that it occupies no connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.engine.calls.batched_calls import BatchedCalls, fail_all
from queenmq.engine.calls.entry import Answerable, R
from queenmq.engine.ports import MessageStore
from queenmq.engine.requests import LeaseRelease, Renewal
from queenmq.errors import PartitionBusy, QueenError
from queenmq.metrics.registry import Registry

_CALLS_MAX = 2
_ROWS_MAX = 1_000


class _Entry(Answerable[R]):
    """One request on its way through a call."""

    def __init__(self, *, wait_ms: int) -> None:
        self.deadline_ms = now_ms() + wait_ms
        self.diverts = 0
        self.attempts = 0

    def still_held(self, key: object) -> PartitionBusy:
        return PartitionBusy(
            "a cursor of this lease is held by another transaction; nothing was changed, try again"
        )


class RenewEntry(_Entry[Renewal]):
    """A lease to extend."""

    weight = 1

    def __init__(self, lease_id: UUID, seconds: int, *, wait_ms: int) -> None:
        super().__init__(wait_ms=wait_ms)
        self.lease_id = lease_id
        self.seconds = seconds
        self.keys = {lease_id}
        self.future = asyncio.get_running_loop().create_future()


class ReleaseEntry(_Entry[None]):
    """Leases of one caller to hand back."""

    def __init__(self, releases: Sequence[LeaseRelease], *, wait_ms: int) -> None:
        super().__init__(wait_ms=wait_ms)
        self.releases = releases
        self.weight = len(releases)
        self.keys = {(one.partition_id, one.consumer_group) for one in releases}
        self.future = asyncio.get_running_loop().create_future()


class LeaseService:
    """Extends and hands back leases."""

    def __init__(
        self,
        store: MessageStore,
        *,
        lock_timeout_ms: int,
        wait_ms: int,
        registry: Registry | None = None,
    ) -> None:
        self._store = store
        self._wait_ms = wait_ms
        self._renewals: BatchedCalls[RenewEntry] = BatchedCalls(
            "extend",
            self._renew,
            store.find_busy_leases,
            calls_max=_CALLS_MAX,
            rows_max=_ROWS_MAX,
            lock_timeout_ms=lock_timeout_ms,
            wait_ms=wait_ms,
            registry=registry,
        )
        self._releases: BatchedCalls[ReleaseEntry] = BatchedCalls(
            "release",
            self._release,
            store.find_busy_cursors,
            calls_max=_CALLS_MAX,
            rows_max=_ROWS_MAX,
            lock_timeout_ms=lock_timeout_ms,
            wait_ms=wait_ms,
            registry=registry,
        )

    def renew(self, lease_id: UUID, *, seconds: int) -> asyncio.Future[Renewal]:
        """Extend a live lease."""
        entry = RenewEntry(lease_id, seconds, wait_ms=self._wait_ms)
        self._renewals.add(entry)
        return entry.future

    async def release(self, releases: Sequence[LeaseRelease]) -> None:
        """End leases before they expire."""
        if releases:
            entry = ReleaseEntry(releases, wait_ms=self._wait_ms)
            self._releases.add(entry)
            await entry.future

    async def drain(self) -> None:
        """Wait until every request has its answer."""
        await self._renewals.drain()
        await self._releases.drain()

    async def _renew(self, entries: list[RenewEntry], lock_timeout_ms: int) -> None:
        """Make one call and answer its requests. Raises PartitionBusy only."""
        try:
            renewals = await self._store.renew_leases(
                [entry.lease_id for entry in entries],
                [entry.seconds for entry in entries],
                lock_timeout_ms=lock_timeout_ms,
            )
        except PartitionBusy:
            raise
        except QueenError as error:
            fail_all(entries, error)
        else:
            for entry, renewal in zip(entries, renewals, strict=True):
                entry.answer(renewal)

    async def _release(self, entries: list[ReleaseEntry], lock_timeout_ms: int) -> None:
        """Make one call and answer its requests. Raises PartitionBusy only."""
        releases = [one for entry in entries for one in entry.releases]
        try:
            await self._store.pop_sm_release(releases, lock_timeout_ms=lock_timeout_ms)
        except PartitionBusy:
            raise
        except QueenError as error:
            fail_all(entries, error)
        else:
            for entry in entries:
                entry.answer(None)
