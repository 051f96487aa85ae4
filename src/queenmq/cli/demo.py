"""`queen demo`: a broker of its own with sample traffic, so that one can watch it work."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from queenmq.clock import now_ms
from queenmq.errors import QueenError

if TYPE_CHECKING:
    from queenmq import Message, Queen

_QUEUE = "demo.orders"
_GROUPS = ("billing", "shipping")
_PARTITIONS = 5


def demo(
    seconds: int = typer.Option(10, min=1, max=600, help="How long to run."),
) -> None:
    """Start a broker, push orders and consume them with two groups; then check that all arrived.

    Example: queen demo --seconds 2
    """
    with _broker() as url:
        print(f"A broker with its own PostgreSQL serves {url}")
        print(f"One producer, {_PARTITIONS} customers (partitions), groups {' and '.join(_GROUPS)}")
        traffic = Traffic(url)
        asyncio.run(traffic.run(seconds))
    traffic.report()


@contextlib.contextmanager
def _broker() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="queen-demo-") as home:
        command = [sys.executable, "-m", "queenmq", "serve", "--port", "0", "--data-dir", home]
        process = subprocess.Popen(
            [*command, "--log-level", "warning"], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        with process.stdout:
            try:
                ready = process.stdout.readline()
                if "ready on " not in ready:
                    raise QueenError("the demo's broker did not start; its log is above")
                yield ready.rpartition(" ")[2].strip()
            finally:
                process.terminate()
                process.wait()


class Traffic:
    """Producers and consumers that remember what they saw."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pushed: Counter[str] = Counter()
        self._consumed: dict[str, Counter[str]] = {group: Counter() for group in _GROUPS}
        self._out_of_order = 0
        self._is_over = False

    async def run(self, seconds: int) -> None:
        """Push for so long, then let the groups catch up."""
        from queenmq import Queen

        end_ms = now_ms() + seconds * 1000
        async with Queen(self._url) as queen:
            consumers = [asyncio.create_task(self._consume(queen, group)) for group in _GROUPS]
            next_line_ms = now_ms()
            while now_ms() < end_ms:
                await self._push(queen)
                if now_ms() >= next_line_ms:
                    next_line_ms += 1000
                    print(f"  {self._line()}")
            self._is_over = True
            await asyncio.gather(*consumers)

    async def _push(self, queen: Queen) -> None:
        items = []
        for customer in (f"customer-{number}" for number in range(_PARTITIONS)):
            self._pushed[customer] += 1
            payload = {"customer": customer, "order": self._pushed[customer]}
            items.append({"data": payload, "partition": customer})
        await queen.push(_QUEUE, items)

    async def _consume(self, queen: Queen, group: str) -> None:
        while True:
            messages = await queen.pop(_QUEUE, group=group, batch=100, wait=True, timeout_ms=500)
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
        """The sums; an error when something is missing or out of order."""
        print(f"  {self._line()}")
        if self._out_of_order or any(seen != self._pushed for seen in self._consumed.values()):
            raise QueenError(
                "messages are missing or out of order; this is a bug, please report it"
            )
        print("Every order reached both groups once and in order.")
