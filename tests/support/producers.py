"""Producers that do not give up, and the look at what has become of their pushes."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from tests.acceptance.load import Wire
from tests.support.broker import SOON_S
from tests.support.waiting import wait_until_async

#: What a producer tries again after: too much at once, no database, unknown.
_AGAIN = (429, 503)
_PAUSE_S = 0.02
_PUSHES = 10


class Producers:
    """Each pushes 1, 2, 3 ... to a partition of its own, one after the other, and sends the same
    message again until it is answered.
    """

    def __init__(
        self, urls: Sequence[str], queue: str, count: int, *, pause_s: float = 0.0
    ) -> None:
        self._pause_s = pause_s
        #: Where to push; may change while they run.
        self.urls = list(urls)
        self.queue = queue
        #: The last number of each that was answered.
        self.answered = [0] * count
        #: How often each status of an answer, and of an item, was seen.
        self.seen: Counter[int | str] = Counter()
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._run(n)) for n in range(len(self.answered))]

    async def more(self, count: int = 3) -> None:
        """Come back when every one of them has had some more answers."""
        before = list(self.answered)

        def have_moved() -> bool:
            for task in self._tasks:
                if task.done():
                    task.result()
            pairs = zip(self.answered, before, strict=True)
            return all(now >= earlier + count for now, earlier in pairs)

        await wait_until_async(have_moved, timeout_s=2 * SOON_S, what="every producer to go on")

    async def saw(self, what: int | str) -> None:
        """Come back when this has been answered from now on."""
        before = self.seen[what]
        await wait_until_async(
            lambda: self.seen[what] > before, timeout_s=2 * SOON_S, what=f"an answer {what!r}"
        )

    async def stop(self) -> None:
        """Let each finish its push."""
        self._is_over = True
        async with asyncio.timeout(2 * SOON_S):
            await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Producers:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, number: int) -> None:
        while not self._is_over:
            with contextlib.suppress(OSError):
                async with Wire(self.urls[number % len(self.urls)]) as wire:
                    await self._push_some(wire, number)
                continue
            await asyncio.sleep(_PAUSE_S)

    async def _push_some(self, wire: Wire, number: int) -> None:
        """A few over one connection; the next one may lead to another process of the broker."""
        for _ in range(_PUSHES):
            if self._is_over:
                return
            value = self.answered[number] + 1
            answer = await wire.push(
                self.queue,
                value,
                partition=f"p{number}",
                transaction_id=f"{self.queue}-{number}-{value}",
            )
            self.seen[answer.status] += 1
            if answer.status in _AGAIN:
                assert int(answer.headers["retry-after"]) >= 1
                await asyncio.sleep(_PAUSE_S)
                continue
            assert answer.status in (201, 202), answer
            self.seen[answer.body[0]["status"]] += 1
            assert answer.body[0]["status"] in ("queued", "duplicate", "buffered"), answer
            self.answered[number] = value
            await asyncio.sleep(self._pause_s)

    async def assert_complete(self, url: str) -> None:
        """Everything that was answered is there once and in order, and nothing else."""
        found = await pop_all(url, self.queue, sum(self.answered))
        wanted = {f"p{n}": list(range(1, last + 1)) for n, last in enumerate(self.answered)}
        broken = {name: found[name] for name in wanted if found[name] != wanted[name]}
        assert not broken, {name: _differences(values) for name, values in broken.items()}
        assert set(found) == set(wanted)


async def pop_all(url: str, queue: str, count: int) -> dict[str, list[Any]]:
    """Payloads by partition, until there are as many as this and no more."""
    found: dict[str, list[Any]] = defaultdict(list)
    async with Wire(url) as wire:

        async def are_all_there() -> bool:
            answer = await wire.call(
                "GET", f"/api/v1/pop/queue/{queue}?batch=1000&partitions=50&autoAck=true"
            )
            assert answer.status in (200, 204, 429, 503), answer
            if answer.status == 200:
                for message in answer.body["messages"]:
                    found[message["partition"]].append(message["data"])
                return False
            return answer.status == 204 and sum(map(len, found.values())) >= count

        await wait_until_async(
            are_all_there, timeout_s=2 * SOON_S, what=f"{count} messages of {queue}"
        )
    return found


def _differences(values: list[int]) -> list[tuple[int, int]]:
    """Return the places where a number is not followed by the next."""
    pairs = zip([0, *values], [*values, -1], strict=True)
    return [pair for pair in pairs if pair[1] != pair[0] + 1][:10]
