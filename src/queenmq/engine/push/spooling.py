"""Keeps pushes on disk while the database cannot take them, and drains them in order.

While anything is left on disk every push goes behind it, so nothing overtakes. Near the end the
spool is closing: pushes wait for the rest to be drained and then go to the database, so that a
steady stream of pushes cannot keep it open for ever.

A record that the database refuses for its data is set aside. A fault of the database is not the
record's: the drain is stuck and retries the record for as long as it takes. Meanwhile new pushes
are refused, because it is unknown when they could be stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence

from queenmq.clock import unix_ms
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.ports import KeptPush, PushJournal
from queenmq.engine.reports import report
from queenmq.engine.requests import PushItems, PushOutcome
from queenmq.errors import (
    QueenError,
    SpoolFailed,
    SpoolFull,
    StorageFault,
    StorageRejected,
    StorageUnavailable,
)
from queenmq.metrics.registry import Registry

logger = logging.getLogger(__name__)

#: The most records and bytes to drain in one batch of calls.
_RECORDS_MAX = 1_000
_BYTES_MAX = 8 * 1024 * 1024
#: How often to check for records without a wake-up: from another process or a failed drain.
_IDLE_S = 0.5
#: The longest pause between two tries while the database has a fault.
_STUCK_S_MAX = 1.0
#: How often a push that waits for the end of the drain checks for it.
_CLOSING_S = 0.005
#: ... and after which time it stops waiting and is kept behind the rest.
_CLOSING_S_MAX = 5.0

#: Buckets of the time from accepting a push to storing it, which may be a long outage.
_LATENCY_SECONDS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 21_600.0, 86_400.0)

#: Stores requests in order. Returns for each the reason why it is not stored, or None.
Store = Callable[[Sequence[PushItems]], Awaitable[Sequence[BaseException | None]]]


class PushSpool:
    """The spool of one broker process. Open it before use. Other processes may share its files."""

    def __init__(
        self,
        *,
        is_down: Callable[[], bool],
        store: Store,
        seal: Callable[[PushItems], None] = lambda items: None,
        registry: Registry | None = None,
    ) -> None:
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
        #: When the oldest push was accepted, in Unix milliseconds; 0 if unknown.
        self._oldest_ms = 0
        self._is_down = is_down
        self._store = store
        #: Encrypts items that must not be on disk in plain text.
        self._seal = seal
        self._opened: PushJournal | None = None
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        #: Requests of a retried batch that are already stored.
        self._stored: set[Hashable] = set()
        #: Tries in a row that met a fault.
        self._faults = 0
        #: Maintenance mode: keep everything, drain nothing.
        self.is_buffering = False
        #: The errors of the last drain and the last write; None if they succeeded.
        self.drain_error: QueenError | None = None
        self.keep_error: QueenError | None = None

    @property
    def _journal(self) -> PushJournal:
        assert self._opened is not None, "the spool is not open"
        return self._opened

    def start(self, journal: PushJournal) -> None:
        """Use this journal and drain its records."""
        self._opened = journal
        self._task = asyncio.create_task(self._loop(), name="spool-drain")
        self._news.set()

    async def stop(self) -> None:
        """Stop draining. The remaining records stay on disk."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def wake(self) -> None:
        """Drain soon, because the database is back or maintenance has ended."""
        self._news.set()

    @property
    def is_needed(self) -> bool:
        """Return whether a push may have to wait or be kept. Cheap, because every push asks."""
        return self._is_blocked() or self._journal.pending > 0

    async def take(self, items: PushItems) -> PushOutcome | None:
        """Keep the items if they must not go to the database now. Return None if they may."""
        deadline = asyncio.get_running_loop().time() + _CLOSING_S_MAX
        while self.is_needed:
            is_over = asyncio.get_running_loop().time() > deadline
            if self._is_blocked():
                return await self.keep(items)
            if self._journal.is_stuck:
                raise StorageFault("pushes of an outage cannot be stored; this one would overtake")
            if not self._journal.is_closing or is_over:
                return await self.keep(items)
            await asyncio.sleep(_CLOSING_S)
        return None

    def _oldest_s(self) -> float:
        if self._opened is None or not self._opened.pending or not self._oldest_ms:
            return 0.0
        return max(0.0, (unix_ms() - self._oldest_ms) / 1000)

    def check_order(self, what: str) -> None:
        """Raise StorageUnavailable if a push now would overtake pushes that were accepted before.

        A database that is merely down raises nothing here. The call itself fails then.
        """
        if self.is_buffering:
            text = (
                f"Pushes are buffered for maintenance, and this {what} would overtake them."
                " Nothing was done. Retry when maintenance has ended."
            )
        elif self._journal.pending:
            text = (
                f"Pushes that were accepted before are still on this broker's disk, and this"
                f" {what} would overtake them. Nothing was done. Retry later."
            )
        else:
            return
        raise StorageUnavailable(text, public=text)

    async def keep(self, items: PushItems) -> PushOutcome:
        """Write the items to disk. They are durable when this returns."""
        spooled = ItemOutcome.SPOOLED
        if self.is_buffering:
            spooled = ItemOutcome.SPOOLED_FOR_MAINTENANCE
        self._seal(items)
        if not self._journal.pending:
            self._oldest_ms = unix_ms()
        try:
            transaction_ids = await self._journal.append(items)
        except (SpoolFull, SpoolFailed) as error:
            self.keep_error = error
            raise
        self.keep_error = None
        self._news.set()
        return PushOutcome((), transaction_ids, [spooled] * len(transaction_ids))

    def _is_blocked(self) -> bool:
        return self.is_buffering or self._is_down()

    async def _loop(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_S):
                    await self._news.wait()
            self._news.clear()
            if not self._journal.pending:
                self._oldest_ms = 0
                continue
            if self._is_blocked() and self._oldest_ms:
                continue
            try:
                if self._is_blocked():
                    await self._look_at_oldest()
                else:
                    await self._drain()
            except StorageFault as error:
                self.drain_error = error
                # The fault is already in the log.
                logger.debug("The spool is stuck: %s", error, extra={"event": "spool_stuck"})
                await asyncio.sleep(min(_IDLE_S * self._faults, _STUCK_S_MAX))
            except QueenError as error:
                self.drain_error = error
                logger.warning("The spool has to wait: %s", error, extra={"event": "spool_waits"})
                await asyncio.sleep(_IDLE_S)
            except Exception:
                # Log a bug, but keep the service running.
                logger.exception(
                    "Draining the spool failed unexpectedly.", extra={"event": "spool_broke"}
                )
                await asyncio.sleep(_IDLE_S)

    async def _look_at_oldest(self) -> None:
        """Learn the age of the oldest push, which an earlier process has kept."""
        if not await self._journal.try_lead():
            return
        try:
            batch = await self._journal.read(records_max=1, bytes_max=_BYTES_MAX)
            # Without a time, its age counts from now.
            first = batch.records[0].accepted_ms if batch.records else 0
            self._oldest_ms = first or unix_ms()
        finally:
            await self._journal.release_lead()

    async def _drain(self) -> None:
        """Store the records on disk, unless another process is doing so."""
        if not await self._journal.try_lead():
            return
        is_stuck = False
        try:
            while not self._is_blocked():
                # After a fault, one record is enough to see whether the database works again.
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
                # There is room again.
                self.drain_error = self.keep_error = None
        except StorageFault:
            is_stuck = True
            self._faults += 1
            raise
        finally:
            await self._journal.announce(is_stuck=is_stuck)
            await self._journal.release_lead()

    async def _store_all(self, records: Sequence[KeptPush]) -> None:
        """Store these in order.

        Raises if the database is at fault. The caller then retries them, but not those already
        stored, which could be queued a second time.
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
        # Set aside last. Earlier, each retry of the others would set them aside again.
        for record, why in refused:
            await self._set_aside(record, why)

    async def _set_aside(self, record: KeptPush, reason: str) -> None:
        facts = {"event": "spool_record_set_aside"}
        logger.error("A spooled push cannot be stored. It was set aside: %s", reason, extra=facts)
        await self._journal.set_aside(record, reason)
