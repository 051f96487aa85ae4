"""The engine's store on the model of the database: every call waits until the test lets it go on.

And an event loop whose clock stands still until the test moves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from queenmq.engine.requests import (
    Fetched,
    LeaseRelease,
    PartitionKey,
    PopCandidate,
    PopGrant,
    ResolveAsk,
    WalkAsk,
)
from tests.support.model_database import ModelDatabase, ModelPartition


class StillLoop(asyncio.SelectorEventLoop):
    """Time passes only by `pass_ms`."""

    now_s = 1_000.0

    def time(self) -> float:
        return self.now_s

    def pass_ms(self, ms: float) -> None:
        self.now_s += ms / 1_000

    def now_ms(self) -> float:
        return self.now_s * 1_000

    def spin(self, turns: int = 12) -> None:
        """Run whatever can run without time or answers."""

        async def turn() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        self.run_until_complete(turn())


class PendingCall:
    """A call that is on its way to the database, or back."""

    def __init__(self, name: str, act: Callable[[], Any]) -> None:
        self.name = name
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._act = act
        self._result: Any = None
        self.is_done = False

    def do(self) -> None:
        """The database does it."""
        if not self.is_done:
            self._result = self._act()
            self.is_done = True

    def answer(self) -> None:
        self.do()
        if not self.future.done():
            self.future.set_result(self._result)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class ModelStore:
    """The part of `queenmq.engine.ports.MessageStore` that the pop path uses."""

    def __init__(self, database: ModelDatabase) -> None:
        self._database = database
        self.calls: list[PendingCall] = []

    async def _call(self, name: str, act: Callable[[], Any]) -> Any:
        call = PendingCall(name, act)
        self.calls.append(call)
        try:
            return await call.future
        finally:
            self.calls.remove(call)

    def _partition(self, partition_id: UUID) -> ModelPartition:
        return next(one for one in self._database.partitions if one.id == partition_id)

    async def find_partitions(
        self, keys: Sequence[PartitionKey], *, limit_ms: int | None = None
    ) -> Any:
        refs = [one.ref for one in self._database.partitions]
        return await self._call("find", lambda: [one for one in refs if one.key in keys])

    async def pop_sm_resolve(self, asks: Sequence[ResolveAsk], *, limit: int, limit_ms: int) -> Any:
        def act() -> Any:
            return [self._database.resolve(ask, limit=limit) for ask in asks]

        return await self._call("look up", act)

    async def walk_partitions(self, asks: Sequence[WalkAsk], *, limit: int, limit_ms: int) -> Any:
        def act() -> Any:
            return [self._database.walk_on(ask) for ask in asks]

        return await self._call("look up", act)

    async def find_news(
        self, queues: Sequence[str], horizons: Sequence[str], *, limit_ms: int
    ) -> Any:
        pairs = list(zip(queues, horizons, strict=True))
        return await self._call("news", lambda: [self._database.find_news(*one) for one in pairs])

    async def has_pending_messages(self, asks: Sequence[ResolveAsk], *, limit_ms: int) -> Any:
        return await self._call("check", lambda: [self._database.has_pending(ask) for ask in asks])

    async def pop_messages_batch(
        self, candidates: Sequence[PopCandidate], *, apart_count: int
    ) -> Any:
        def act() -> Any:
            seen = self._database.see(candidates)
            return self._database.take(candidates, seen, apart_count=apart_count)

        return await self._call("pop", act)

    async def pop_sm_fetch(self, consumer_group: str, grants: Sequence[PopGrant]) -> Any:
        def act() -> dict[UUID, Fetched]:
            read = {}
            for grant in grants:
                one = self._partition(grant.partition_id)
                assert grant.after_seq is not None and grant.end_seq is not None
                count = sum(grant.after_seq < seq <= grant.end_seq for seq in one.rows)
                read[one.id] = Fetched(count, None, False, one.name, one.queue.name)
            return read

        return await self._call("read", act)

    async def find_busy_cursors(self, keys: Sequence[Any]) -> set[Any]:
        return set()

    async def find_busy_leases(self, lease_ids: Sequence[UUID]) -> set[UUID]:
        return set()

    async def pop_sm_release(
        self, releases: Sequence[LeaseRelease], *, lock_timeout_ms: int
    ) -> Any:
        def act() -> None:
            for release in releases:
                one = self._partition(release.partition_id)
                cursor = one.cursor(release.consumer_group)
                if cursor.lease_id == release.lease_id and release.pass_seq is not None:
                    self._database.pass_hole(one, release.consumer_group, release.pass_seq)
                elif cursor.lease_id == release.lease_id:
                    cursor.lease_id = None

        return await self._call("release", act)
