"""Wake-ups between brokers: announces pushes and acks made here, publishes those made elsewhere.

Notifications are hints with a bound on their rate: one per interval, whatever the number of pushes,
because one per commit would cut the commit rate to a third. A lost one costs only a poll interval.
The listener reports whether notifications arrive, because that decides how long the interval is.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

import asyncpg

from queenmq.clock import now_ms
from queenmq.engine.lifecycle import Loop, LoopService
from queenmq.engine.news import News
from queenmq.engine.requests import PartitionKey, PartitionRef
from queenmq.errors import QueenError
from queenmq.ids import random_uuid
from queenmq.storage.stores.messages import PostgresMessageStore

logger = logging.getLogger(__name__)

CHANNEL = "queen_wake"
#: PostgreSQL allows less than 8000 bytes. Beyond that, `*` stands for all queues.
_PAYLOAD_MAX = 7_500
_RETRY_S_MIN = 0.1
_RETRY_S_MAX = 5.0
#: A connection that has lasted this long is worth reopening soon.
_STEADY_MS = 5_000
#: What the driver and the way to the server may raise.
_FAILURES = (
    OSError,
    QueenError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


class WakeListener(LoopService):
    """Both directions of one broker. With listening off, only the sending side runs."""

    def __init__(
        self,
        store: PostgresMessageStore,
        connect: Callable[[], Awaitable[asyncpg.Connection]],
        *,
        interval_ms: int,
        is_listening: bool,
        news: News,
    ) -> None:
        super().__init__("wake-listener")
        self._store = store
        self._connect = connect
        self._interval_s = interval_ms / 1000
        self._is_listening = is_listening
        self._news = news
        self._origin = random_uuid().hex
        self._queues: set[str] = set()
        self._has_news = asyncio.Event()

    def _loops(self) -> Mapping[str, Loop]:
        loops: dict[str, Loop] = {"wake-send": self._send_forever}
        if self._is_listening:
            loops["wake-listen"] = self._listen_forever
        return loops

    def notify(self, queue: str) -> None:
        """Announce that this queue has new or freed messages."""
        self._queues.add(queue)
        self._has_news.set()

    def notify_pushed(self, refs: Collection[PartitionRef]) -> None:
        """Note that messages were stored in these partitions, if there are any."""
        if refs:
            self._queues.update([ref.key.queue for ref in refs])
            self._has_news.set()

    def notify_freed(self, _id: UUID, key: PartitionKey, _group: str) -> None:
        """Note that a partition can be popped again."""
        self._queues.add(key.queue)
        self._has_news.set()

    async def _send_forever(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            queues, self._queues = self._queues, set()
            try:
                await self._store.notify(CHANNEL, encode_wake(self._origin, queues))
            except QueenError as error:
                logger.debug(
                    "Could not send a wake-up: %s", error, extra={"event": "wake_not_sent"}
                )
            await asyncio.sleep(self._interval_s)

    async def _listen_forever(self) -> None:
        retry_s = _RETRY_S_MIN
        while True:
            try:
                if await self._listen() >= _STEADY_MS:
                    retry_s = _RETRY_S_MIN
            except _FAILURES as error:
                logger.warning(
                    "not listening for wake-ups: %s", error, extra={"event": "wake_lost"}
                )
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, _RETRY_S_MAX)

    async def _listen(self) -> float:
        """Listen until the connection is lost. Return how long that was, in milliseconds."""
        connection = await self._connect()
        is_lost = asyncio.Event()
        connection.add_termination_listener(lambda _: is_lost.set())
        try:
            await connection.add_listener(CHANNEL, self._heard)
            began_ms = now_ms()
            self._news.listening(True)
            try:
                await is_lost.wait()
            finally:
                self._news.listening(False)
            return now_ms() - began_ms
        finally:
            connection.terminate()

    def _heard(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        queues = decode_wake(self._origin, str(payload))
        for group in decode_groups(str(payload)):
            # Before pops are woken by the same notification.
            for queue in queues:
                self._news.group_deleted(queue, group)
        if queues:
            self._news.pushed_elsewhere(queues)


def encode_wake(origin: str, queues: Iterable[str]) -> str:
    """Return the text of a notification. `*` means all queues, if there are too many."""
    text = json.dumps({"from": origin, "queues": sorted(queues)}, separators=(",", ":"))
    if len(text.encode()) > _PAYLOAD_MAX:
        text = json.dumps({"from": origin, "queues": ["*"]}, separators=(",", ":"))
    return text


def decode_wake(origin: str, text: str) -> list[str]:
    """Return the queues in another broker's notification. Nothing for our own or an invalid one."""
    try:
        wake = json.loads(text)
        sender, queues = wake["from"], wake["queues"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    if sender == origin or not isinstance(queues, list):
        return []
    return [queue for queue in queues if isinstance(queue, str)]


def decode_groups(text: str) -> list[str]:
    """Return the consumer groups that a notification says are deleted on its queues."""
    try:
        groups = json.loads(text)["groups"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    if not isinstance(groups, list):
        return []
    return [group for group in groups if isinstance(group, str)]
