"""Owns the buffer of one partition: flushed by count or time, in order, retried until stored.

A failed flush keeps all messages. The buffer fills up meanwhile, and then the caller waits.
Messages that the server refuses for good go to the callback, and into the error of the next flush
or close. Messages arrive encoded, so no payload can make a flush fail.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from queenmq.client.errors import BufferFailed, ClientError, RequestFailed
from queenmq.client.http.servers import affinity_key
from queenmq.client.http.transport import Transport
from queenmq.client.push.pushing import Pusher

logger = logging.getLogger(__name__)

Key = tuple[str, str]
Item = dict[str, Any]


class Entry(NamedTuple):
    """An item, and its JSON as it is sent. An error hands the item back."""

    item: Item
    data: bytes


class Room:
    """The capacity that all buffers of a client share, because there may be many partitions."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._freed = asyncio.Event()
        #: Buffers with refused items that were not reported yet.
        self.refusing: dict[Buffer, None] = {}

    @property
    def is_full(self) -> bool:
        return self._held >= self._limit

    def take(self) -> None:
        self._held += 1

    def free(self, count: int) -> None:
        self._held -= count
        self._freed.set()

    async def wait(self) -> None:
        """Wait until some buffer has freed room."""
        self._freed.clear()
        await self._freed.wait()


class Buffer:
    """The messages for one partition. One task sends them, so that they keep their order."""

    def __init__(
        self,
        key: Key,
        pusher: Pusher,
        transport: Transport,
        on_error: Callable[[BufferFailed], None] | None,
        room: Room,
        forget: Callable[[], None],
    ) -> None:
        self._key = affinity_key(*key, None)
        self._room = room
        self._forget = forget
        #: Running calls of `add`.
        self._callers = 0
        self._pusher = pusher
        self._transport = transport
        self._on_error = on_error
        self._items: deque[Entry] = deque()
        self._refused: list[Item] = []
        self._reason = ""
        self._since = 0.0
        self._sent = 0
        self.flushes = 0
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        #: Flushes that wait until this many have been sent.
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def count(self) -> int:
        return len(self._items)

    def age_ms(self) -> float:
        """Return the age of the oldest item."""
        return (self._now() - self._since) * 1000 if self._items else 0.0

    def configure(self, *, message_count: int, time_millis: float, max_size: int) -> None:
        self._count_max = max(1, message_count)
        self._time_s = time_millis / 1000
        self._size_max = max(self._count_max, max_size)

    async def add(self, entries: Sequence[Entry]) -> None:
        self._callers += 1
        try:
            for number, entry in enumerate(entries):
                await self._wait_for_room()
                if self._is_closing:
                    raise BufferFailed(_items_of(entries[number:]), "the client was closed")
                self._append(entry)
        finally:
            self._callers -= 1

    async def _wait_for_room(self) -> None:
        while not self._is_closing:
            is_full = len(self._items) + len(self._refused) >= self._size_max
            if not is_full and not self._room.is_full:
                return
            if self._refused:
                raise self._take_refused()
            if self._room.is_full and self._room.refusing:
                raise next(iter(self._room.refusing))._take_refused()
            await self._room.wait()

    def _append(self, entry: Entry) -> None:
        if not self._items:
            self._since = self._now()
        self._items.append(entry)
        self._room.take()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        elif len(self._items) >= self._count_max:
            self._wake.set()

    async def flush(self) -> None:
        """Send all current items, or raise."""
        if self._items:
            future = asyncio.get_running_loop().create_future()
            self._waiters.append((self._sent + len(self._items), future))
            self._wake.set()
            await future
        if self._refused:
            raise self._take_refused()

    async def close(self, timeout: float) -> None:
        """Send all items, or raise BufferFailed with those that could not be delivered."""
        self._is_closing = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        left = [*self._refused, *_items_of(self._items)]
        if not left:
            return
        failure = BufferFailed(left, self._reason or "no time was left")
        self._end_flushes(failure)
        # Wake pushes that wait for room.
        self._items.clear()
        self._refused.clear()
        self._room.refusing.pop(self, None)
        self._room.free(len(left))
        raise failure

    async def _run(self) -> None:
        failures = 0
        while self._items:
            if not self._is_due():
                await self._wait(self._since + self._time_s - self._now())
                continue
            batch = [self._items[i] for i in range(min(self._count_max, len(self._items)))]
            try:
                await self._send(batch)
            except Exception as error:
                # Whatever went wrong, such as in the user's own `json`: no item is lost, and none
                # waits for a task that has died.
                failures += 1
                is_ours = isinstance(error, ClientError)
                self._fail(str(error) if is_ours else f"{type(error).__name__}: {error}")
                policy = self._transport.policy
                await self._wait(policy.backoff(failures, random=random.random))
            else:
                failures = 0
        if not self._refused and not self._callers:
            self._forget()

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

    async def _send(self, batch: list[Entry]) -> None:
        """Send the first items. Items that were not stored stay at the front."""
        try:
            results = await self._pusher.send_encoded([one.data for one in batch], key=self._key)
        except RequestFailed as error:
            if not 400 <= error.status < 500 or error.status in (401, 403, 429):
                raise
            if len(batch) == 1:
                self._refuse(error.reason)
                return
            # Too large, or one of them is invalid. Halves find out which.
            middle = len(batch) // 2
            await self._send(batch[:middle])
            await self._send(batch[middle:])
            return
        self.flushes += 1
        for number, result in enumerate(results):
            if result.get("status") == "failed":
                # The queue is full. Later items wait as well, to keep the order.
                self._remove(number)
                raise ClientError(str(result.get("error") or "an item was refused"))
        self._remove(len(results))

    def _remove(self, count: int) -> None:
        for _ in range(count):
            self._items.popleft()
        self._sent += count
        self._since = self._now()
        self._room.free(count)
        waiting = []
        for target, future in self._waiters:
            if self._sent < target:
                waiting.append((target, future))
            elif not future.done():
                future.set_result(None)
        self._waiters = waiting

    def _refuse(self, reason: str) -> None:
        """Set the first item aside, because the server will never take it.

        The next flush hands it back.
        """
        item = self._items[0].item
        self._refused.append(item)
        self._room.take()
        self._room.refusing[self] = None
        self._remove(1)
        self._report(BufferFailed([item], reason))

    def _fail(self, reason: str) -> None:
        """Keep all items and report the error to all waiting flushes."""
        error = BufferFailed(_items_of(self._items), reason)
        self._end_flushes(error)
        self._report(error)

    def _end_flushes(self, error: BufferFailed) -> None:
        waiters, self._waiters = self._waiters, []
        for _, future in waiters:
            if not future.done():
                future.set_exception(error)

    def _report(self, error: BufferFailed) -> None:
        self._reason = error.reason
        facts = {"event": "flush_failed", "error": error.reason, "count": len(error.items)}
        text = "Could not deliver %d buffered messages: %s"
        logger.warning(text, len(error.items), error.reason, extra=facts)
        if self._on_error is not None:
            try:
                self._on_error(error)
            except Exception:
                logger.exception(
                    "The on_buffer_error callback failed.", extra={"event": "callback_failed"}
                )

    def _take_refused(self) -> BufferFailed:
        items, self._refused = self._refused, []
        self._room.refusing.pop(self, None)
        self._room.free(len(items))
        if not self._items and not self._callers:
            self._forget()
        return BufferFailed(items, self._reason)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _items_of(entries: Iterable[Entry]) -> list[Item]:
    return [entry.item for entry in entries]
