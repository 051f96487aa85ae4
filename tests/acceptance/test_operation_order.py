"""Many producers, two brokers of which one queues and one stores, and kills: the order holds."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable

import asyncpg
import pytest

from tests.acceptance.load import Answer, Wire
from tests.acceptance.operation_side import EAGER, wait_until_done
from tests.isolation.sessions import ensure
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.operations import stored
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.slow

StartBroker = Callable[..., BrokerProcess]

_PARTITIONS = 24
_VALUES = 500
#: The first broker queues whatever it is given, the second stores as long as nothing waits.
_SETTINGS = ({**EAGER, "QUEEN_LOG_LEVEL": "critical"}, {"QUEEN_LOG_LEVEL": "critical"})


class _Brokers:
    """Two brokers that can be killed and come again."""

    def __init__(self, start: StartBroker) -> None:
        self._start = start
        self.running = [start(**settings) for settings in _SETTINGS]

    def url(self, number: int) -> str:
        return self.running[number % 2].url

    async def replace(self, number: int) -> None:
        await asyncio.to_thread(self.running[number].kill)
        self.running[number] = await asyncio.to_thread(self._start, **_SETTINGS[number])


class _Producer:
    """Pushes 1 to n to a partition of its own, over one broker and the other in turn."""

    def __init__(self, brokers: _Brokers, queue: str, number: int) -> None:
        self.brokers, self.queue, self.number = brokers, queue, number
        self.partition = f"tenant:{number}"
        self.value = 0
        self.statuses: Counter[int] = Counter()
        self._wires: dict[str, Wire] = {}

    async def run(self) -> None:
        try:
            while self.value < _VALUES:
                # A few in a row on each, and again over the other if there is no answer.
                if await self._push(self.value + 1, over=self.value // 3 + self.number):
                    self.value += 1
        finally:
            for wire in self._wires.values():
                await wire.close()

    async def _push(self, value: int, *, over: int) -> bool:
        for number in (over, over + 1):
            with contextlib.suppress(OSError, TimeoutError):
                answer = await self._send(self.brokers.url(number), value)
                self.statuses[answer.status] += 1
                if answer.status in (201, 202):
                    return True
                assert answer.status in (429, 503), answer
        return False

    async def _send(self, url: str, value: int) -> Answer:
        wire = self._wires.get(url)
        if wire is None:
            wire = Wire(url)
            await wire.__aenter__()
            self._wires[url] = wire
        try:
            return await wire.push(
                self.queue, value, partition=self.partition, transaction_id=f"v{value}"
            )
        except OSError:
            del self._wires[url]
            raise


async def test_each_partition_has_all_values_in_order_and_once(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    # What a killed broker had claimed shall not be waited for as long as usual.
    await database.execute(
        "ALTER TABLE queen.operation_queue ALTER COLUMN timeout_seconds SET DEFAULT 1"
    )
    queue, brokers = unique(), await asyncio.to_thread(_Brokers, start_broker)
    producers = [_Producer(brokers, queue, number) for number in range(_PARTITIONS)]
    running = [asyncio.create_task(producer.run()) for producer in producers]
    total = _PARTITIONS * _VALUES
    for turn in range(8):
        await _wait_for_progress(producers, running, total * (turn + 1) // 10)
        await brokers.replace(turn % 2)
    await asyncio.gather(*running)
    await wait_until_done(database, timeout_s=2 * SOON_S)
    statuses = sum((producer.statuses for producer in producers), Counter())
    assert statuses[201] > total // 10 and statuses[202] > total // 10, statuses
    for producer in producers:
        (place,) = await ensure(database, queue, producer.partition)
        assert await stored(database, place) == list(range(1, _VALUES + 1))


async def _wait_for_progress(
    producers: list[_Producer], running: list[asyncio.Task[None]], count: int
) -> None:
    def has_come() -> bool:
        for task in running:
            if task.done():
                task.result()
        return sum(producer.value for producer in producers) >= count

    await wait_until_async(has_come, timeout_s=2 * SOON_S, what=f"{count} pushes")
