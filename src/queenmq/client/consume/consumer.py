"""Owns the consume loop: workers that pop, handle, ack and renew until they are stopped.

Each worker handles one leased batch at a time, message after message. The server leases a partition
to only one of them. So the messages of a partition are never handled in parallel or out of order,
whatever the number of workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from queenmq.client.consume.acks import Acker, Tail, release
from queenmq.client.consume.ahead import Ahead
from queenmq.client.consume.handling import Handling
from queenmq.client.consume.leases import KeptLease
from queenmq.client.consume.progress import BatchProgress, Budget
from queenmq.client.errors import ClientClosed, RequestFailed, Unreachable
from queenmq.client.message import Message

if TYPE_CHECKING:
    from queenmq.client.client import Queen
    from queenmq.client.consume.consumption import ConsumeOptions

logger = logging.getLogger(__name__)

#: Seconds between pops that do not wait.
_POLL_S = 0.1


class Consumer:
    """One run of a consumption."""

    def __init__(
        self,
        queen: Queen,
        options: ConsumeOptions,
        *,
        handle: Callable[[Any], Any] | None,
        on_success: Callable[..., Any] | None = None,
        on_error: Callable[..., Any] | None = None,
    ) -> None:
        self._queen = queen
        self._options = options
        self.handling = Handling(
            queen._ack_client,
            options,
            handle=handle,
            on_success=on_success,
            on_error=on_error,
            is_stopping=lambda: self.is_stopping,
        )
        self._budget = Budget(options.limit)
        self._stopping = asyncio.Event()
        #: Idle workers, which may be interrupted.
        self._waiting: set[asyncio.Task[Any]] = set()
        self.workers: set[asyncio.Task[None]] = set()
        self._busy = 0
        #: Whether the last pop of any worker failed.
        self._is_cut_off = False
        self._last = asyncio.get_running_loop().time()

    @property
    def is_stopping(self) -> bool:
        given = self._options.stop_event
        return self._stopping.is_set() or (given is not None and given.is_set())

    def stop(self) -> None:
        """Take no new messages. Handlers that run are finished."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        for task in self._waiting - {asyncio.current_task()}:
            task.cancel()

    async def run(self) -> None:
        """Consume until the limit, the idle time, a stop or an error."""
        workers = [asyncio.create_task(self._work()) for _ in range(self._options.concurrency)]
        self.workers.update(workers)
        watcher = asyncio.create_task(self._watch())
        try:
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
            self.stop()
            await asyncio.gather(*workers)
        finally:
            watcher.cancel()
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, watcher, return_exceptions=True)

    async def _watch(self) -> None:
        """Stop when the user's event is set."""
        if self._options.stop_event is not None:
            await self._options.stop_event.wait()
            self.stop()

    async def _work(self) -> None:
        async with contextlib.aclosing(self.batches()) as batches:
            async for progress, acker in batches:
                await self.handling.run(progress, acker)

    async def batches(self) -> AsyncGenerator[tuple[BatchProgress, Acker], None]:
        """Yield leased batches one by one. Each lease is renewed until its acks are sent."""
        request, budget = self._options.request, self._budget
        failures, tail = 0, Tail()
        ahead = Ahead(request, budget, is_stopping=lambda: self.is_stopping)
        try:
            while not self.is_stopping and not budget.is_spent:
                share, messages = ahead.take()
                share = share or budget.take(request.batch)
                progress = BatchProgress([])
                try:
                    messages = messages or await self._run_unless_stopped(self._pop(share))
                    failures = 0
                    if share and messages is not None:
                        self._log_recovery()
                    if messages:
                        progress = BatchProgress(messages)
                        async with self._in_hand(progress, tail, ahead) as acker:
                            yield progress, acker
                except (Unreachable, RequestFailed) as error:
                    if isinstance(error, RequestFailed) and not _may_pass(error.status):
                        raise
                    failures += 1
                    if not self._stop_if_idle():
                        await self._run_unless_stopped(self._back_off(failures, error))
                finally:
                    # Messages not handled after a failure count as not taken.
                    budget.give_back(share, progress.taken)
        finally:
            await tail.drain()
            share, messages = ahead.take()
            budget.give_back(share, 0)
            await release(self._queen._ack_client, messages)

    async def _back_off(self, failures: int, error: Exception) -> None:
        delay = self._queen._transport.policy.backoff(failures, random=random.random)
        facts = {"event": "pop_failed", "error": str(error), "delay_s": round(delay, 3)}
        text = "The consumer of %r cannot pop and retries in %.2f s: %s"
        logger.warning(text, self._options.request.place, delay, error, extra=facts)
        self._is_cut_off = True
        await self._pause(delay)

    def _log_recovery(self) -> None:
        if self._is_cut_off:
            self._is_cut_off = False
            text = "The consumer of %r pops again."
            logger.warning(text, self._options.request.place, extra={"event": "pop_recovered"})

    async def _pop(self, share: int) -> list[Message[Any]]:
        if share == 0:
            # Other workers have reserved the rest. Some of it may come back.
            await self._pause(_POLL_S)
            return []
        request = self._options.request
        messages = await self._queen._pop(request, batch=share, timeout_ms=self._poll_ms())
        if not messages and not self._stop_if_idle() and not request.wait:
            await self._pause(_POLL_S)
        return messages

    @contextlib.asynccontextmanager
    async def _in_hand(
        self, progress: BatchProgress, tail: Tail, ahead: Ahead
    ) -> AsyncIterator[Acker]:
        # If batches come from several partitions, pop the next one while acks are sent.
        must_ack_first = tail.must_ack_first(progress.partition_ids)
        acker = Acker(self._queen._ack_client, progress, ahead if must_ack_first else None)
        self._busy += 1
        lease = self._keep_lease(progress)

        def put_down() -> None:
            if lease is not None:
                lease.stop()
            self._busy -= 1
            self._last = asyncio.get_running_loop().time()

        try:
            yield acker
        except BaseException:
            try:
                await acker.drain()
            finally:
                put_down()
            raise
        await tail.follow(acker, put_down)

    def _keep_lease(self, progress: BatchProgress) -> KeptLease | None:
        if not self._options.renew_lease or not progress.lease_id:
            return None
        return KeptLease(
            progress,
            ack_client=self._queen._ack_client,
            transport=self._queen._transport,
            interval=self._options.renew_interval_ms / 1000,
        )

    def _poll_ms(self) -> int:
        """Return how long to wait for messages, at most until the idle time is over."""
        wanted = self._options.request.timeout_ms
        if self._options.idle_ms is None:
            return wanted
        left = self._options.idle_ms - self._idle_ms()
        return max(1, min(wanted, int(left) + 1))

    def _idle_ms(self) -> float:
        if self._busy:
            self._last = asyncio.get_running_loop().time()
        return (asyncio.get_running_loop().time() - self._last) * 1000

    def _stop_if_idle(self) -> bool:
        idle_ms = self._options.idle_ms
        if idle_ms is not None and self._idle_ms() >= idle_ms:
            self.stop()
            return True
        return False

    async def _pause(self, seconds: float) -> None:
        await self._queen._transport.pause(seconds)

    async def _run_unless_stopped(self, work: Any) -> Any:
        """Return the result of the work, or None if a stop interrupts it."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            return await work
        except asyncio.CancelledError:
            if self._stopping.is_set() and task.uncancel() == 0:
                return None
            raise
        except ClientClosed:
            if self._stopping.is_set():
                return None
            raise
        finally:
            self._waiting.discard(task)


def _may_pass(status: int) -> bool:
    return status == 429 or status >= 500
