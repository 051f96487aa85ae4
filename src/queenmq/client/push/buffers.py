"""Owns the buffers of a client: one per queue and partition, with a common bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from queenmq import wire
from queenmq.client.builders import Buffered
from queenmq.client.errors import BufferFailed, ClientClosed
from queenmq.client.http.transport import Transport
from queenmq.client.push.buffer import Buffer, Entry, Item, Key, Room
from queenmq.client.push.pushing import Pusher


class BufferKeywords(TypedDict, total=False):
    """The size and age at which a buffer is flushed, and its bound."""

    message_count: int
    time_millis: float
    max_size: int


#: Different reasons that the text of an error lists.
_REASONS_MAX = 5
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
        """Add items, as soon as there is room for them.

        They are encoded first. So a payload that cannot be encoded raises here, as in a direct
        push, and then none of the items is added.
        """
        if self._is_closed:
            raise ClientClosed("the client was closed; it takes no more messages")
        unknown = options.keys() - _DEFAULTS.keys()
        if unknown:
            raise TypeError(f"a buffer has no option {', '.join(sorted(unknown))}")
        encode = self._transport.codec.encode_payloads
        by_partition: dict[Key, list[Entry]] = {}
        for item in items:
            entry = Entry(item, encode(item))
            by_partition.setdefault((item["queue"], item["partition"]), []).append(entry)
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
        """Flush all buffers, even if some fail. The error has the items of all that failed."""
        done = await asyncio.gather(
            *(buffer.flush() for buffer in self._buffers.values()), return_exceptions=True
        )
        _raise_failures(done)

    async def close(self, timeout: float) -> None:
        """Send everything, with retries until the time is over. The error has the rest."""
        self._is_closed = True
        buffers = list(self._buffers.values())
        self._buffers.clear()
        done = await asyncio.gather(
            *(buffer.close(timeout) for buffer in buffers), return_exceptions=True
        )
        _raise_failures(done)

    def stats(self) -> BufferStats:
        buffers = [one for one in self._buffers.values() if one.count]
        return BufferStats(
            active_buffers=len(buffers),
            total_buffered_messages=sum(one.count for one in buffers),
            oldest_buffer_age=max((one.age_ms() for one in buffers), default=0.0),
            flushes_performed=self._flushes + sum(one.flushes for one in self._buffers.values()),
        )


def _raise_failures(done: Sequence[BaseException | None]) -> None:
    """Raise one error with the items and the reasons of all buffers that failed."""
    failures = [one for one in done if isinstance(one, BufferFailed)]
    other = next((one for one in done if one is not None and one not in failures), None)
    if failures:
        items = [item for one in failures for item in one.items]
        raise BufferFailed(items, _join_reasons(failures)) from other
    if other is not None:
        raise other


def _join_reasons(failures: Sequence[BufferFailed]) -> str:
    reasons = list(dict.fromkeys(one.reason for one in failures))
    if len(reasons) > _REASONS_MAX:
        reasons[_REASONS_MAX:] = [f"and {len(reasons) - _REASONS_MAX} more reasons"]
    return "; ".join(reasons)
