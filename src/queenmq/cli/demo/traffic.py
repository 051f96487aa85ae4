"""Orders of a few customers: one producer, two groups of consumers, and their checks."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from queenmq import Message, Queen, SyncQueen
from queenmq.clock import now_ms
from queenmq.errors import QueenError

QUEUE = "demo.orders"
_GROUPS = ("billing", "shipping")
_PARTITIONS = 5
#: Between two pushes; the demo is to be watched, not to heat the room.
_PAUSE_S = 0.005


class Traffic:
    """Producers and consumers that remember what they saw."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._pushed: Counter[str] = Counter()
        self._consumed: dict[str, Counter[str]] = {group: Counter() for group in _GROUPS}
        self._out_of_order = 0
        self._stop = threading.Event()
        self._is_over = False

    @property
    def pushed(self) -> int:
        """Return how many orders there are."""
        return self._pushed.total()

    def introduce(self) -> None:
        """Introduce the participants, and create the queue."""
        print(f"A broker with its own PostgreSQL serves {self.url}")
        print(f"One producer, {_PARTITIONS} customers (partitions), groups {' and '.join(_GROUPS)}")
        with SyncQueen(self.url) as queen:
            queen.queue(QUEUE).config({"ack_history": True}).create()

    def run(self, seconds: int) -> None:
        """Push for so long, then let the groups catch up."""
        self._stop.set()
        asyncio.run(self._run(seconds))

    @contextmanager
    def running(self, seconds: int) -> Iterator[None]:
        """Push meanwhile, and for so long at least; afterwards the groups have caught up."""
        thread = threading.Thread(target=lambda: asyncio.run(self._run(seconds)))
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    async def _run(self, seconds: int) -> None:
        end_ms = now_ms() + seconds * 1000
        async with Queen(self.url) as queen:
            consumers = [asyncio.create_task(self._consume(queen, group)) for group in _GROUPS]
            next_line_ms = now_ms()
            while now_ms() < end_ms or not self._stop.is_set():
                await self._push(queen)
                await asyncio.sleep(_PAUSE_S)
                if now_ms() >= next_line_ms:
                    next_line_ms += 2000
                    print(f"  {self._line()}", flush=True)
            self._is_over = True
            await asyncio.gather(*consumers)

    async def _push(self, queen: Queen) -> None:
        items = []
        for customer in (f"customer-{number}" for number in range(_PARTITIONS)):
            self._pushed[customer] += 1
            number = self._pushed[customer]
            payload = {"customer": customer, "order": number, "total": number % 90 + 10}
            items.append({"data": payload, "partition": customer})
        await queen.push(QUEUE, items)

    async def _consume(self, queen: Queen, group: str) -> None:
        while True:
            messages = await queen.pop(QUEUE, group=group, batch=100, wait=True, timeout_ms=500)
            if messages:
                self._note(group, messages)
                await queen.ack(messages)
            elif self._is_over:
                return

    def _note(self, group: str, messages: list[Message[Any]]) -> None:
        seen = self._consumed[group]
        for message in messages:
            customer, order = message.data["customer"], message.data["order"]
            self._out_of_order += order != seen[customer] + 1
            seen[customer] = order

    def _line(self) -> str:
        parts = [f"pushed {self._pushed.total():>7}"]
        parts += [f"{group} {seen.total():>7}" for group, seen in self._consumed.items()]
        return "   ".join(parts)

    def report(self) -> None:
        """Print the sums, and an error if messages are missing or out of order."""
        print(f"  {self._line()}")
        if self._out_of_order or any(seen != self._pushed for seen in self._consumed.values()):
            raise QueenError(
                "messages are missing or out of order; this is a bug, please report it"
            )
        print("Every order reached both groups once and in order.")
