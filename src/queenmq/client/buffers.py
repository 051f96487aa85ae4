"""Owns buffered pushes: collected per queue and partition, sent by count or time, never dropped.

A flush that fails is tried again until it works; meanwhile the buffer fills up, and then the caller
waits. What the server refuses for good is handed back: to the callback, and as an error of the next
flush or of the close.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from queenmq.client.errors import BufferFailed, ClientClosed, ClientError, RequestFailed
from queenmq.client.pushing import Pusher
from queenmq.client.servers import affinity_key
from queenmq.client.transport import Transport

logger = logging.getLogger(__name__)

Key = tuple[str, str]
Item = dict[str, Any]


class BufferKeywords(TypedDict, total=False):
    """When a buffer is sent, and how much it takes before the caller has to wait."""

    message_count: int
    time_millis: float
    max_size: int


_DEFAULTS: BufferKeywords = {"message_count": 100, "time_millis": 1_000, "max_size": 10_000}


class Buffers:
    """All buffers of a client."""

    def __init__(
        self,
        pusher: Pusher,
        transport: Transport,
        on_error: Callable[[BufferFailed], None] | None,
    ) -> None:
        self._pusher = pusher
        self._transport = transport
        self._on_error = on_error
        self._buffers: dict[Key, Buffer] = {}
        self._is_closed = False

    async def add(self, items: list[Item], options: Mapping[str, Any]) -> dict[str, Any]:
        """Take items, as soon as there is room for them."""
        if self._is_closed:
            raise ClientClosed("the client was closed; it takes no more messages")
        unknown = options.keys() - _DEFAULTS.keys()
        if unknown:
            raise TypeError(f"a buffer has no option {', '.join(sorted(unknown))}")
        lanes: dict[Key, list[Item]] = {}
        for item in items:
            lanes.setdefault((item["queue"], item["partition"]), []).append(item)
        for key, some in lanes.items():
            buffer = self._buffers.get(key)
            if buffer is None:
                buffer = Buffer(key, self._pusher, self._transport, self._on_error)
                self._buffers[key] = buffer
            buffer.configure(**{**_DEFAULTS, **options})
            await buffer.add(some)
        return {"buffered": True, "count": len(items)}

    async def flush(self, key: Key) -> None:
        if key in self._buffers:
            await self._buffers[key].flush()

    async def flush_all(self) -> None:
        """Flush all of them, also if one fails; then raise the first failure."""
        done = await asyncio.gather(
            *(buffer.flush() for buffer in self._buffers.values()), return_exceptions=True
        )
        for result in done:
            if isinstance(result, BaseException):
                raise result

    async def close(self, timeout: float) -> None:
        """Send everything, trying again until the time is over; what is left is in the error."""
        self._is_closed = True
        buffers = list(self._buffers.values())
        self._buffers.clear()
        left = await asyncio.gather(*(buffer.close(timeout) for buffer in buffers))
        items = [item for some, _ in left for item in some]
        if items:
            reason = next(reason for some, reason in left if some)
            raise BufferFailed(items, reason)

    def stats(self) -> dict[str, Any]:
        buffers = [one for one in self._buffers.values() if one.count]
        return {
            "activeBuffers": len(buffers),
            "totalBufferedMessages": sum(one.count for one in buffers),
            "oldestBufferAge": max((one.age_ms() for one in buffers), default=0.0),
            "flushesPerformed": sum(one.flushes for one in self._buffers.values()),
        }


class Buffer:
    """The messages for one partition. One task sends them, so that they keep their order."""

    def __init__(
        self,
        key: Key,
        pusher: Pusher,
        transport: Transport,
        on_error: Callable[[BufferFailed], None] | None,
    ) -> None:
        self._key = affinity_key(*key, None)
        self._pusher = pusher
        self._transport = transport
        self._on_error = on_error
        self._items: deque[Item] = deque()
        self._refused: list[Item] = []
        self._reason = ""
        self._since = 0.0
        self._sent = 0
        self.flushes = 0
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        #: Flushes that wait until so many have been sent.
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def count(self) -> int:
        return len(self._items)

    def age_ms(self) -> float:
        """Since when the oldest one has been here."""
        return (self._now() - self._since) * 1000 if self._items else 0.0

    def configure(self, *, message_count: int, time_millis: float, max_size: int) -> None:
        self._count_max = max(1, message_count)
        self._time_s = time_millis / 1000
        self._size_max = max(self._count_max, max_size)

    async def add(self, items: list[Item]) -> None:
        for number, item in enumerate(items):
            while len(self._items) + len(self._refused) >= self._size_max:
                if self._refused:
                    raise self._take_refused()
                self._room.clear()
                await self._room.wait()
            if self._is_closing:
                raise BufferFailed(items[number:], "the client was closed")
            if not self._items:
                self._since = self._now()
            self._items.append(item)
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._run())
            elif len(self._items) >= self._count_max:
                self._wake.set()

    async def flush(self) -> None:
        """Send all that is here now, or raise."""
        if self._items:
            future = asyncio.get_running_loop().create_future()
            self._waiters.append((self._sent + len(self._items), future))
            self._wake.set()
            await future
        if self._refused:
            raise self._take_refused()

    async def close(self, timeout: float) -> tuple[list[Item], str]:
        """Send all; what could not be delivered, and why."""
        self._is_closing = True
        self._wake.set()
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await asyncio.shield(self._task)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        left, self._reason = [*self._refused, *self._items], self._reason or "no time was left"
        # Whoever waits for room is told.
        self._items.clear()
        self._refused.clear()
        self._room.set()
        return left, self._reason

    async def _run(self) -> None:
        failures = 0
        while self._items:
            if not self._is_due():
                await self._wait(self._since + self._time_s - self._now())
                continue
            batch = [self._items[i] for i in range(min(self._count_max, len(self._items)))]
            try:
                await self._send(batch)
            except ClientError as error:
                failures += 1
                self._fail(str(error))
                policy = self._transport.policy
                await self._wait(policy.backoff(failures, random=random.random))
            else:
                failures = 0

    def _is_due(self) -> bool:
        return (
            self._is_closing
            or bool(self._waiters)
            or len(self._items) >= self._count_max
            or self._now() >= self._since + self._time_s
        )

    async def _wait(self, seconds: float) -> None:
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._wake.wait()

    async def _send(self, batch: list[Item]) -> None:
        """Send the first ones; those that stay behind are still the first ones."""
        try:
            results = await self._pusher.send(batch, key=self._key)
        except RequestFailed as error:
            if not 400 <= error.status < 500 or error.status in (401, 403, 429):
                raise
            if len(batch) == 1:
                self._refuse(error.reason)
                return
            # One of them spoils the request; alone, the others get through.
            for item in batch:
                await self._send([item])
            return
        self.flushes += 1
        for number, result in enumerate(results):
            if result.get("status") == "failed":
                # A full queue: what comes after it waits as well, or the order would be lost.
                self._remove(number)
                raise ClientError(str(result.get("error") or "an item was refused"))
        self._remove(len(results))

    def _remove(self, count: int) -> None:
        for _ in range(count):
            self._items.popleft()
        self._sent += count
        self._since = self._now()
        self._room.set()
        waiting = []
        for target, future in self._waiters:
            if self._sent < target:
                waiting.append((target, future))
            elif not future.done():
                future.set_result(None)
        self._waiters = waiting

    def _refuse(self, reason: str) -> None:
        """The server will never take the first one; the next flush hands it back."""
        item = self._items[0]
        self._refused.append(item)
        self._remove(1)
        self._tell(BufferFailed([item], reason))

    def _fail(self, reason: str) -> None:
        """Everything stays here, and whoever waits for it is told."""
        error = BufferFailed(list(self._items), reason)
        waiters, self._waiters = self._waiters, []
        for _, future in waiters:
            if not future.done():
                future.set_exception(error)
        self._tell(error)

    def _tell(self, error: BufferFailed) -> None:
        self._reason = error.reason
        facts = {"event": "flush_failed", "error": error.reason, "count": len(error.items)}
        logger.warning("buffered messages were not delivered", extra=facts)
        if self._on_error is not None:
            try:
                self._on_error(error)
            except Exception:
                logger.exception("on_buffer_error broke", extra={"event": "callback_failed"})

    def _take_refused(self) -> BufferFailed:
        items, self._refused = self._refused, []
        return BufferFailed(items, self._reason)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
