"""Mutated bytes against connections without a socket, with clients, networks and handlers at odds.

The suite runs a few. Many: `python -m tests.support.edge_fuzz --count 1000000 --seed 1`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import time

from benchmarks.mutator import cut, mutate
from queenmq.server.edge.crowd import Crowd
from queenmq.server.edge.exchange import Exchange
from queenmq.server.edge.machine import State
from tests.support.edge_wire import CROWD_LIMITS, EdgeWire, turn

#: What the edge may answer; 200 is the scripted application's own.
STATUSES = {100, 200, 400, 403, 408, 413, 414, 415, 417, 431, 501, 503, 505}
#: Sequences between two looks at what threads and later turns of the loop have to do.
_TURN_EVERY = 50


class Fuzz:
    """One run. Raises AssertionError with the bytes that broke a rule."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._crowd = Crowd(CROWD_LIMITS)
        self._open: list[tuple[EdgeWire, bytes]] = []

    async def run(self, count: int) -> None:
        """Try so many sequences."""
        for number in range(count):
            data = mutate(self._chance)
            wire = EdgeWire(self._app, crowd=self._crowd, gzip_bytes_min=50)
            self._deliver(wire, data)
            self._open.append((wire, data))
            if len(self._open) == _TURN_EVERY or number == count - 1:
                await turn()
                await self._end_all()

    def _app(self, exchange: Exchange) -> None:
        """Answer most requests at once, and leave some for later."""
        if self._chance.random() < 0.7:
            exchange.answer(200, b"." * len(exchange.body))

    def _deliver(self, wire: EdgeWire, data: bytes) -> None:
        for piece in cut(self._chance, data):
            if wire.transport.is_closed:
                return
            wire.connection.data_received(piece)
            happens = self._chance.random()
            if happens < 0.02 and wire.connection.unread_since_s is None:
                wire.connection.pause_writing()
            elif happens < 0.04 and wire.connection.unread_since_s is not None:
                wire.connection.resume_writing()
            elif happens < 0.05:
                wire.connection.dismiss()

    async def _end_all(self) -> None:
        """End what is open as clients do, and check that nothing of it stays behind."""
        for wire, data in self._open:
            connection = wire.connection
            if connection.unread_since_s is not None and self._chance.random() < 0.5:
                connection.resume_writing()
            if self._chance.random() < 0.5:
                wire.leave()
            for exchange in wire.exchanges:
                exchange.answer(200, b"late")
            if connection.state is not State.CLOSED:
                wire.leave()
            assert not wire.errors, data
            assert set(wire.statuses) <= STATUSES, data
            assert len(wire.statuses) <= data.count(b"\r\n\r\n") * 2 + 1, data
        self._open.clear()
        # A body that a thread decodes counts until the thread is done with it.
        async with asyncio.timeout(30):
            while self._crowd.body_bytes:
                await turn()
        assert len(self._crowd) == 0


def main() -> None:
    """Run many and say what they took."""
    options = argparse.ArgumentParser()
    options.add_argument("--count", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    asyncio.run(Fuzz(chosen.seed + 1_000).run(20_000))
    before = _rss_kb()
    began = time.perf_counter()
    asyncio.run(Fuzz(chosen.seed).run(chosen.count))
    took_s = time.perf_counter() - began
    print(
        f"{chosen.count} sequences in {took_s:.0f} s; memory {before} kB before, {_rss_kb()} after"
    )


def _rss_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
