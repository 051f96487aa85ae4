"""Times single pops over HTTP, one after the other on one connection, several queues in turn."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.client import Connection, check
from benchmarks.figures import median, percentile, with_spread

#: What a pop is told; a queue that is popped empty answers 204.
_ONE = "batch=1&autoAck=true&wait=false"
_ALL = "batch=10000&partitions=256&autoAck=true&wait=false"


@dataclass
class Timings:
    """The pops of one queue, in milliseconds."""

    all: list[float] = field(default_factory=list)
    #: The median of each round.
    rounds: list[float] = field(default_factory=list)

    def add(self, taken: Sequence[float]) -> None:
        """One more round."""
        self.all += taken
        self.rounds.append(median(taken))

    def text(self) -> str:
        """Median with its spread over the rounds; mean and p99 of all pops."""
        mean = sum(self.all) / len(self.all)
        rest = f"mean {mean:.2f}, p99 {percentile(self.all, 99):.2f}"
        return f"{with_spread(self.rounds, ' ms')}, {rest}"


async def time_pops(
    client: Connection, queue: str, *, count: int, status: int = 200
) -> list[float]:
    """Milliseconds of each of that many pops."""
    path = f"/api/v1/pop/queue/{queue}?{_ONE}"
    taken = []
    for _ in range(count):
        begin = time.perf_counter()
        answer = await client.get(path)
        taken.append((time.perf_counter() - begin) * 1e3)
        check(answer, status)
    return taken


async def time_in_turn(
    client: Connection, queues: Sequence[str], *, rounds: int, count: int, status: int = 200
) -> dict[str, Timings]:
    """Every round pops from every queue. The round before the first warms caches and plans."""
    timings = {queue: Timings() for queue in queues}
    for number in range(rounds + 1):
        for queue in queues:
            taken = await time_pops(client, queue, count=count, status=status)
            if number:
                timings[queue].add(taken)
    return timings


async def drain(client: Connection, queue: str) -> None:
    """Pop until nothing is left."""
    while (await client.get(f"/api/v1/pop/queue/{queue}?{_ALL}")).status != 204:
        pass


def slowest_to_fastest(timings: Mapping[str, Timings]) -> list[float]:
    """Of all queues, round by round."""
    rounds = zip(*(one.rounds for one in timings.values()), strict=True)
    return [max(one) / min(one) for one in rounds]
