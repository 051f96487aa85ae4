"""Stores the pushes of the spool, in order, as soon as the database accepts them.

One process drains at a time. Near the end it announces that the spool is closing: pushes then wait
for the rest to be drained and go to the database, so that a steady stream of pushes cannot keep the
spool open forever.

A record that the database refuses for its data is set aside. A fault of the database is not the
record's: the drain is stuck and tries it again for as long as it takes. New pushes are refused
meanwhile, because it is unknown when they could be stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence

from queenmq.clock import unix_ms
from queenmq.engine.lifecycle import LoopService
from queenmq.engine.ports import KeptPush, PushJournal
from queenmq.engine.push.spooling import PushSpool
from queenmq.engine.reports import report
from queenmq.engine.requests import PushItems
from queenmq.errors import QueenError, StorageFault, StorageRejected
from queenmq.metrics.registry import Registry

logger = logging.getLogger(__name__)

#: What is drained with one batch of calls.
_RECORDS_MAX = 1_000
_BYTES_MAX = 8 * 1024 * 1024
#: How often to look for records without a wake-up: of another process, or of a failed drain.
_IDLE_S = 0.5
#: The longest pause between two tries while the database has a fault.
_STUCK_S_MAX = 1.0

#: Of the time from accepting a push to storing it: outages last.
_LATENCY_SECONDS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 21_600.0, 86_400.0)

#: Stores requests in order. Returns for each why it is not stored, or None.
Store = Callable[[Sequence[PushItems]], Awaitable[Sequence[BaseException | None]]]


class SpoolDrain(LoopService):
    """The drain of one broker process. Other processes may share the files."""

    def __init__(
        self,
        spool: PushSpool,
        journal: PushJournal,
        store: Store,
        *,
        registry: Registry | None = None,
    ) -> None:
        super().__init__("spool-drain")
        registry = registry or Registry()
        registry.gauge(
            "queen_spool_oldest_seconds",
            "Age of the oldest push on disk, as far as it is known.",
            read=self._oldest_s,
            merge="max",
        )
        self._latency_s = registry.histogram(
            "queen_spool_latency_seconds",
            "From keeping a push on disk to storing it.",
            bounds=_LATENCY_SECONDS,
        )
        self._spool = spool
        self._journal = journal
        self._store = store
        #: When the push in front was accepted, in Unix milliseconds; 0 if that is not known.
        self._oldest_ms = 0
        self._has_work = asyncio.Event()
        #: Which requests of a batch that is tried again need not be.
        self._stored: set[Hashable] = set()
        #: Tries in a row that met a fault.
        self._faults = 0
        #: The error of the last drain, or None.
        self.error: QueenError | None = None

    async def start(self) -> None:
        self._has_work.set()
        await super().start()

    def wake(self) -> None:
        """Drain soon, because the database is back or maintenance has ended."""
        self._has_work.set()

    def note_spooled(self) -> None:
        """Note that a push is on disk, and drain it soon."""
        if not self._oldest_ms or self._journal.pending <= 1:
            self._oldest_ms = unix_ms()
        self._has_work.set()

    def _oldest_s(self) -> float:
        if not self._oldest_ms or not self._journal.pending:
            return 0.0
        return max(0.0, (unix_ms() - self._oldest_ms) / 1000)

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_S):
                    await self._has_work.wait()
            self._has_work.clear()
            if not self._journal.pending:
                self._oldest_ms = 0
            elif not self._spool.is_blocked or not self._oldest_ms:
                await self._pass()

    async def _pass(self) -> None:
        """Drain, or check the age of the first record. Survive any error."""
        try:
            if self._spool.is_blocked:
                await self._look_at_oldest()
            else:
                await self._drain()
            self._is_failing = False
        except StorageFault as error:
            self.error = error
            # The database has said it to the log.
            logger.debug("The spool is stuck: %s", error, extra={"event": "spool_stuck"})
            await asyncio.sleep(min(_IDLE_S * self._faults, _STUCK_S_MAX))
        except QueenError as error:
            self.error = error
            logger.warning("The spool has to wait: %s", error, extra={"event": "spool_waits"})
            await asyncio.sleep(_IDLE_S)
        except Exception:
            # A defect must be seen, and must not end the service for the life of the broker.
            self._is_failing = True
            logger.exception(
                "Draining the spool failed unexpectedly.", extra={"event": "spool_broke"}
            )
            await asyncio.sleep(_IDLE_S)

    async def _look_at_oldest(self) -> None:
        """Learn how old the push in front is, which an earlier process has kept."""
        if not await self._journal.try_lead():
            return
        try:
            batch = await self._journal.read(records_max=1, bytes_max=_BYTES_MAX)
            # One without a time counts from now on.
            first = batch.records[0].accepted_ms if batch.records else 0
            self._oldest_ms = first or unix_ms()
        finally:
            await self._journal.release_lead()

    async def _drain(self) -> None:
        """Store the pushes on disk, unless another process already does."""
        if not await self._journal.try_lead():
            return
        is_stuck = False
        try:
            while not self._spool.is_blocked:
                # Behind a fault one record is enough to see whether it is mended.
                records_max = 1 if self._journal.is_stuck else _RECORDS_MAX
                batch = await self._journal.read(records_max=records_max, bytes_max=_BYTES_MAX)
                if not batch.records:
                    break
                self._oldest_ms = batch.records[0].accepted_ms or unix_ms()
                if self._journal.pending <= len(batch.records) and not self._journal.is_stuck:
                    await self._journal.announce(is_closing=True)
                await self._store_all(batch.records)
                await self._journal.advance(batch.end)
                self._stored.difference_update(record.position for record in batch.records)
                if self._journal.is_stuck:
                    await self._journal.announce()
                self._faults = 0
                self.error = None
                self._spool.note_room()
        except StorageFault:
            is_stuck = True
            self._faults += 1
            raise
        finally:
            await self._journal.announce(is_stuck=is_stuck)
            await self._journal.release_lead()

    async def _store_all(self, records: Sequence[KeptPush]) -> None:
        """Store these in order. Raises when the database is at fault: then they come again, but
        for those that are stored, which could be queued a second time.
        """
        left = [record for record in records if record.position not in self._stored]
        readable = [(record, record.items) for record in left if record.items is not None]
        errors = await self._store([items for _, items in readable])
        refused = [(record, "it cannot be read") for record in left if record.items is None]
        failed: BaseException | None = None
        for (record, _), error in zip(readable, errors, strict=True):
            if error is None:
                self._stored.add(record.position)
                if record.accepted_ms:
                    self._latency_s.observe(max(0.0, (unix_ms() - record.accepted_ms) / 1000))
            elif isinstance(error, StorageRejected):
                facts = {"event": "spooled_push_refused"}
                refused.append((record, report(error, "a spooled push cannot be stored", facts)))
            else:
                failed = failed or error
        if failed is not None:
            raise failed
        # Only now: before, they would be set aside again each time the others are tried.
        for record, why in refused:
            await self._set_aside(record, why)

    async def _set_aside(self, record: KeptPush, reason: str) -> None:
        facts = {"event": "spool_record_set_aside"}
        logger.error("A spooled push cannot be stored. It was set aside: %s", reason, extra=facts)
        await self._journal.set_aside(record, reason)
