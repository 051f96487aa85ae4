"""Owns the buffers of a client: one per queue and partition, with a common bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from queenmq import wire
from queenmq.client.builders import Buffered
from queenmq.client.errors import BufferFailed, ClientClosed
from queenmq.client.http.transport import Transport
from queenmq.client.push.buffer import Buffer, Item, Key, Room
from queenmq.client.push.pushing import Pusher


class BufferKeywords(TypedDict, total=False):
    """The size and age at which a buffer is flushed, and its bound."""

    message_count: int
    time_millis: float
    max_size: int


_DEFAULTS: BufferKeywords = {"message_count": 100, "time_millis": 1_000, "max_size": 10_000}


class BufferStats(wire.Answer):
    """The fill level of all buffers. The age of the oldest one is in milliseconds."""

    active_buffers: int
    total_buffered_messages: int
    oldest_buffer_age: float
    flushes_performed: int


class Buffers:
    """All buffers of a client. Empty ones are dropped."""

    def __init__(
        self,
        pusher: Pusher,
        transport: Transport,
        on_error: Callable[[BufferFailed], None] | None,
        limit: int,
    ) -> None:
        self._pusher = pusher
        self._transport = transport
        self._on_error = on_error
        self._room = Room(limit)
        self._buffers: dict[Key, Buffer] = {}
        #: Flushes of dropped buffers.
        self._flushes = 0
        self._is_closed = False

    async def add(self, items: list[Item], options: Mapping[str, Any]) -> Buffered:
        """Add items, as soon as there is room for them."""
        if self._is_closed:
            raise ClientClosed("the client was closed; it takes no more messages")
        unknown = options.keys() - _DEFAULTS.keys()
        if unknown:
            raise TypeError(f"a buffer has no option {', '.join(sorted(unknown))}")
        by_partition: dict[Key, list[Item]] = {}
        for item in items:
            by_partition.setdefault((item["queue"], item["partition"]), []).append(item)
        for key, some in by_partition.items():
            buffer = self._buffers.get(key) or self._make(key)
            buffer.configure(**{**_DEFAULTS, **options})
            await buffer.add(some)
        return Buffered(buffered=True, count=len(items))

    def _make(self, key: Key) -> Buffer:
        def forget() -> None:
            if self._buffers.get(key) is buffer:
                del self._buffers[key]
                self._flushes += buffer.flushes

        buffer = Buffer(key, self._pusher, self._transport, self._on_error, self._room, forget)
        self._buffers[key] = buffer
        return buffer

    async def flush(self, key: Key) -> None:
        if key in self._buffers:
            await self._buffers[key].flush()

    async def flush_all(self) -> None:
        """Flush all buffers, even if one fails. Then raise the first failure."""
        done = await asyncio.gather(
            *(buffer.flush() for buffer in self._buffers.values()), return_exceptions=True
        )
        for result in done:
            if isinstance(result, BaseException):
                raise result

    async def close(self, timeout: float) -> None:
        """Send everything, with retries until the time is over. The error has the rest."""
        self._is_closed = True
        buffers = list(self._buffers.values())
        self._buffers.clear()
        left = await asyncio.gather(*(buffer.close(timeout) for buffer in buffers))
        items = [item for some, _ in left for item in some]
        if items:
            reason = next(reason for some, reason in left if some)
            raise BufferFailed(items, reason)

    def stats(self) -> BufferStats:
        buffers = [one for one in self._buffers.values() if one.count]
        return BufferStats(
            active_buffers=len(buffers),
            total_buffered_messages=sum(one.count for one in buffers),
            oldest_buffer_age=max((one.age_ms() for one in buffers), default=0.0),
            flushes_performed=self._flushes + sum(one.flushes for one in self._buffers.values()),
        )
