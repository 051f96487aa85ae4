"""The broker's memory of which partitions exist, so that a push touches no catalogue table.

An entry may be stale, because another broker can delete the queue. The push function notices
(PartitionGone). The broker then drops the entry and looks the partition up again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from queenmq.clock import now_ms
from queenmq.engine.ports import MessageStore
from queenmq.engine.requests import PartitionKey, PartitionRef
from queenmq.errors import PartitionBusy, QueenError, StorageRejected, StorageUnavailable

logger = logging.getLogger(__name__)

#: Partitions created or looked up by one call.
_KEYS_PER_CALL = 500
_STUCK_CALLS_MAX = 2
#: How often a request is repeated because its queue was deleted meanwhile.
REPEATS_MAX = 5
#: Remembered partitions; about 0.6 KB each.
_ENTRIES_MAX = 100_000


class Catalogue:
    """Maps names to partitions. Many requests share a call. One bad name fails alone."""

    def __init__(self, store: MessageStore, *, lock_timeout_ms: int, wait_ms: int) -> None:
        self._store = store
        self._lock_timeout_ms = lock_timeout_ms
        self._wait_ms = wait_ms
        self._refs: OrderedDict[PartitionKey, PartitionRef] = OrderedDict()
        self._wanted: dict[PartitionKey, asyncio.Future[PartitionRef]] = {}
        self._runner: asyncio.Task[None] | None = None
        #: Those of the wanted partitions that are created in calls of their own.
        self._apart: dict[PartitionKey, asyncio.Task[None]] = {}
        # Stuck partitions hold at most these connections, however many there are.
        self._stuck_slots = asyncio.Semaphore(_STUCK_CALLS_MAX)

    def get(self, key: PartitionKey) -> PartitionRef | None:
        """Return the partition if it is remembered."""
        return self._refs.get(key)

    def get_all(self, keys: Sequence[PartitionKey]) -> list[PartitionRef] | None:
        """Return the partitions in order, or None unless all of them are remembered."""
        refs = [ref for key in keys if (ref := self._refs.get(key)) is not None]
        return refs if len(refs) == len(keys) else None

    def __len__(self) -> int:
        """Return how many partitions are remembered."""
        return len(self._refs)

    def forget(self, keys: Iterable[PartitionKey]) -> None:
        """Drop entries that turned out to be stale."""
        for key in keys:
            self._refs.pop(key, None)

    def forget_queue(self, queue: str) -> None:
        """Drop all entries of a queue."""
        self.forget([key for key in self._refs if key.queue == queue])

    async def ensure(self, keys: Sequence[PartitionKey]) -> list[PartitionRef]:
        """Return the partitions with these names in order, created where needed."""
        # Held here, because the memory may forget an entry while we wait for another.
        refs = {key: self._refs[key] for key in keys if key in self._refs}
        missing = set(keys).difference(refs)
        found = await asyncio.gather(*(self._want(key) for key in missing), return_exceptions=True)
        for result in found:
            if isinstance(result, BaseException):
                raise result
            refs[result.key] = result
        return [refs[key] for key in keys]

    async def find(
        self, keys: Iterable[PartitionKey], *, limit_ms: int | None = None
    ) -> dict[PartitionKey, PartitionRef]:
        """Return those of the named partitions that exist; creates nothing. Raises CallTimedOut
        after the limit.
        """
        found: dict[PartitionKey, PartitionRef] = {}
        unknown = []
        for key in keys:
            if ref := self._refs.get(key):
                found[key] = ref
            else:
                unknown.append(key)
        if not unknown:
            return found
        for ref in await self._store.find_partitions(unknown, limit_ms=limit_ms):
            self._remember(ref)
            found[ref.key] = ref
        return found

    def _want(self, key: PartitionKey) -> asyncio.Future[PartitionRef]:
        future = self._wanted.get(key)
        if future is None:
            future = self._wanted[key] = asyncio.get_running_loop().create_future()
            if self._runner is None:
                self._runner = asyncio.create_task(self._run(), name="catalogue")
        # Shielded: a caller that is cancelled must not take the answer from the others.
        return asyncio.shield(future)

    async def _run(self) -> None:
        try:
            # Each key is answered or set apart by its first call, so this ends.
            while keys := [key for key in self._wanted if key not in self._apart][:_KEYS_PER_CALL]:
                await self._create(keys)
        finally:
            self._runner = None

    async def _create(self, keys: list[PartitionKey]) -> None:
        try:
            refs = await self._store.ensure_partitions(keys, lock_timeout_ms=self._lock_timeout_ms)
        except PartitionBusy:
            # Another session is creating one of these in an open transaction. Wait for each
            # separately.
            self._create_apart(keys)
        except StorageRejected as error:
            # One name is at fault. Only that one may fail.
            if len(keys) > 1:
                self._create_apart(keys)
            else:
                self._answer(keys[0], error)
        except QueenError as error:
            for key in keys:
                self._answer(key, error)
        except Exception:
            self._answer_broken(keys)
        else:
            self._answer_found(keys, refs)

    def _create_apart(self, keys: Iterable[PartitionKey]) -> None:
        for key in keys:
            task = asyncio.create_task(self._create_alone(key), name="catalogue-stuck")
            self._apart[key] = task

    async def _create_alone(self, key: PartitionKey) -> None:
        try:
            refs = await self._retry_alone(key)
        except QueenError as error:
            self._answer(key, error)
        except Exception:
            self._answer_broken([key])
        else:
            self._answer_found([key], refs)

    async def _retry_alone(self, key: PartitionKey) -> list[PartitionRef]:
        """Ask for one partition until it can be created. Raises PartitionBusy after the wait."""
        deadline_ms = now_ms() + self._wait_ms
        while await self._wait_for_slot(deadline_ms):
            try:
                return await self._store.ensure_partitions(
                    [key], lock_timeout_ms=self._lock_timeout_ms
                )
            except PartitionBusy:
                continue
            finally:
                self._stuck_slots.release()
        raise PartitionBusy(
            f"partition {key.partition!r} of queue {key.queue!r} is being created by a"
            " transaction that has not ended; nothing was stored, try again"
        )

    async def _wait_for_slot(self, deadline_ms: float) -> bool:
        """Take a slot for a call. Return whether there was one before the deadline."""
        if (left_ms := deadline_ms - now_ms()) <= 0:
            return False
        try:
            async with asyncio.timeout(left_ms / 1000):
                await self._stuck_slots.acquire()
        except TimeoutError:
            return False
        return True

    def _answer_found(self, keys: Iterable[PartitionKey], refs: Iterable[PartitionRef]) -> None:
        for ref in refs:
            self._remember(ref)
            self._answer(ref.key, ref)
        # Answer callers also for partitions that the store left out.
        for key in keys:
            text = f"queue {key.queue!r} could not be created; try again"
            self._answer(key, StorageUnavailable(text, public=text))

    def _answer_broken(self, keys: Iterable[PartitionKey]) -> None:
        """Report a bug, in an `except` clause. No caller may be left without an answer."""
        logger.exception("Finding partitions failed unexpectedly.", extra={"event": "call_broke"})
        self._answer_found(keys, ())

    def _remember(self, ref: PartitionRef) -> None:
        self._refs[ref.key] = ref
        if len(self._refs) > _ENTRIES_MAX:
            self._refs.popitem(last=False)

    def _answer(self, key: PartitionKey, result: PartitionRef | QueenError) -> None:
        self._apart.pop(key, None)
        future = self._wanted.pop(key, None)
        if future is None or future.done():
            return
        if isinstance(result, PartitionRef):
            future.set_result(result)
        else:
            future.set_exception(result)
            # Every caller may have left. Then the error needs no reader.
            future.exception()
