"""Runs the operations that wait in the database, on every broker at once.

A claim takes the next operations of each partition. Running it stores the messages and completes
the operations in one transaction, so a failure leaves nothing half done. Failed operations are
retried in smaller parts until the one at fault is alone. An operation only fails for data that the
database refuses. A fault of the database is waited out, however long it takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from uuid import UUID

from queenmq.clock import now_ms
from queenmq.engine.catalogue import Catalogue
from queenmq.engine.lifecycle import LoopService
from queenmq.engine.news import News
from queenmq.engine.ports import OperationStore
from queenmq.engine.queued_pushes.metrics import OperationMetrics
from queenmq.engine.reports import report
from queenmq.engine.requests import ClaimedOperation
from queenmq.errors import (
    ClaimLost,
    PartitionBusy,
    QueenError,
    StorageFault,
    StorageRejected,
    StorageUnavailable,
)
from queenmq.ids import random_uuid

logger = logging.getLogger(__name__)

#: Partitions and messages of one claim.
_PARTITIONS_MAX = 500
_ITEMS_MAX = 2_000
#: How often to poll when nothing was queued here: other brokers queue, and may die.
_IDLE_S = 1.0
#: Between two claims under load.
_PACE_S = 0.25
#: The pause before a failed operation is tried again. Each failure doubles it.
_DELAY_MS = 200
_DELAY_MS_MAX = 10_000
#: How long an operation of a held partition waits before its next try.
_HELD_MS = 250

Operations = Sequence[ClaimedOperation]


class OperationProcessor(LoopService):
    """The loop of one broker. Publishes which partitions got messages.

    While pushes are queued for load (`is_engaged`) it runs slowly. Otherwise queueing would not
    relieve the database.
    """

    def __init__(
        self,
        store: OperationStore,
        metrics: OperationMetrics,
        catalogue: Catalogue,
        *,
        worker: str,
        lock_timeout_ms: int,
        is_engaged: Callable[[], bool],
        news: News,
    ) -> None:
        super().__init__("operations")
        self._store = store
        self._metrics = metrics
        self._worker = worker
        self._lock_timeout_ms = lock_timeout_ms
        self._is_engaged = is_engaged
        self._catalogue = catalogue
        self._news = news
        self._has_work = asyncio.Event()

    def notify_queued(self, count: int) -> None:
        """Count operations that this broker queued, and run them soon."""
        self._metrics.note_queued(count)
        self.wake()

    def wake(self) -> None:
        """Run soon what waits, because there may be more of it."""
        self._has_work.set()

    async def _run(self) -> None:
        # A stop cuts a run off. What is claimed then is given back, or found by other brokers after
        # its timeout.
        while True:
            try:
                async with asyncio.timeout(_IDLE_S):
                    await self._has_work.wait()
            except TimeoutError:
                pass
            self._has_work.clear()
            try:
                await self._drain()
                self._is_failing = False
            except QueenError as error:
                facts = {"event": "operations_failed"}
                logger.debug("Queued operations have to wait: %s", error, extra=facts)
                if isinstance(error, StorageFault):
                    # Pause, however many are queued meanwhile: each try costs the database the
                    # same.
                    await asyncio.sleep(_IDLE_S)
            except Exception:
                # A defect must be seen, and must not end the service for the life of the broker.
                self._is_failing = True
                logger.exception(
                    "Running queued operations failed unexpectedly.",
                    extra={"event": "operations_broke"},
                )

    async def _drain(self) -> None:
        """Run all operations. Also measure the depth, because other brokers queue and run, too."""
        measured_ms = now_ms()
        while await self.run_once():
            if now_ms() - measured_ms >= _IDLE_S * 1000:
                self._metrics.note_depth(await self._store.count_waiting())
                measured_ms = now_ms()
            if self._is_engaged():
                await asyncio.sleep(_PACE_S)
        self._metrics.note_depth(await self._store.count_waiting())

    async def run_once(self) -> bool:
        """Claim and run operations. Return whether any could be stored."""
        token = random_uuid()
        claimed = await self._store.claim(
            self._worker, token, partitions_max=_PARTITIONS_MAX, items_max=_ITEMS_MAX
        )
        if not claimed:
            return False
        self._metrics.note_stuck(sum(one.was_stuck for one in claimed))
        try:
            return await self._run_claimed(token, claimed) > 0
        except BaseException:
            # Release the claim, so that other brokers need not wait for its timeout.
            with contextlib.suppress(QueenError, TimeoutError):
                async with asyncio.timeout(_IDLE_S):
                    await self._store.release(_ids(claimed), token)
            raise

    async def _run_claimed(self, token: UUID, operations: Operations) -> int:
        """Run operations together, or in halves if that fails. Return how many completed."""
        began_ms = now_ms()
        try:
            messages = await self._store.run(
                _ids(operations), token, lock_timeout_ms=self._lock_timeout_ms
            )
        except StorageUnavailable:
            raise
        except ClaimLost:
            await self._store.release(_ids(operations), token)
            return 0
        except QueenError as error:
            if len(operations) == 1:
                await self._fail(token, operations[0], error)
                return 0
            return await self._run_halves(token, operations)
        took_ms = now_ms() - began_ms
        self._metrics.note_run(len(operations), messages, took_ms=took_ms)
        self._metrics.note_latencies(one.waited_s + took_ms / 1000 for one in operations)
        found = await self._catalogue.find({one.key for one in operations})
        self._news.pushed(found.values())
        return len(operations)

    async def _run_halves(self, token: UUID, operations: Operations) -> int:
        middle = cut(operations)
        first, second = operations[:middle], operations[middle:]
        done = await self._run_claimed(token, first)
        if done < len(first) and first[-1].partition_id == second[0].partition_id:
            # To keep the order, operations behind a failed one wait for it.
            await self._store.release(_ids(second), token)
            return done
        return done + await self._run_claimed(token, second)

    async def _fail(self, token: UUID, operation: ClaimedOperation, error: QueenError) -> None:
        is_counted = isinstance(error, StorageRejected)
        runs = operation.retry_count + is_counted
        await self._store.release(
            [operation.id],
            token,
            failed_id=operation.id,
            error=report(error, f"operation {operation.id} failed", {"event": "operation_refused"}),
            is_counted=is_counted,
            delay_ms=delay_ms(error, runs),
        )
        if is_counted and runs >= operation.max_retries:
            self._metrics.note_failed(1)
            facts = {"event": "operation_failed", "operation": str(operation.id)}
            logger.error(
                "operation %s of queue %r, partition %r failed %d times: %s; see queen ops show",
                operation.id, operation.queue_name, operation.partition_name, runs, error,
                extra=facts,
            )  # fmt: skip


def cut(operations: Operations) -> int:
    """Return where to split: near the middle, between two partitions if there are several."""
    half = len(operations) // 2
    borders = [
        place
        for place in range(1, len(operations))
        if operations[place - 1].partition_id != operations[place].partition_id
    ]
    return min(borders, key=lambda place: abs(place - half), default=half)


def delay_ms(error: QueenError, runs: int) -> int:
    """Return how long an operation waits for its next run."""
    if isinstance(error, PartitionBusy):
        return _HELD_MS
    return min(_DELAY_MS << runs, _DELAY_MS_MAX)


def _ids(operations: Operations) -> list[UUID]:
    return [one.id for one in operations]
