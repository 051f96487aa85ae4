"""Everything that touches operations against everything else, at random: never in a circle."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from uuid import UUID

import asyncpg

from queenmq.storage.sql_files import load_queries
from tests.isolation.sessions import Connect, Item, ensure, push, transaction
from tests.support.broker import unique
from tests.support.operations import claim, give_back, run, settle

_SESSIONS = 6
_STEPS = 150
_NAMES = ["a", "b", "c", "d"]
#: Refusals with a code of our own are answers. A run waits as long for a row as brokers let it.
_EXPECTED = ("QN001", "QN002", "QN003", "QN004")
_RUN_WAIT_MS = 100


class _Chaos:
    """One session that does what brokers and operators do with operations."""

    def __init__(self, session: asyncpg.Connection, queues: list[str], seed: int) -> None:
        self.session = session
        self.queues = queues
        self.chance = random.Random(seed)
        self.places: list[UUID] = []
        self.done: Counter[str] = Counter()

    def _items(self) -> list[Item]:
        some = self.chance.sample(self.places, min(3, len(self.places)))
        return [Item(place, self.chance.random()) for place in some]

    async def ensure(self) -> None:
        self.places = [
            place for queue in self.queues for place in await ensure(self.session, queue, *_NAMES)
        ]

    async def push(self) -> None:
        await push(self.session, *self._items())

    async def push_accepted(self) -> None:
        await push(self.session, *self._items(), is_accepted=True)

    async def push_in_part(self) -> None:
        items = self._items()
        queued = [item.partition_id for item in items if self.chance.random() < 0.5]
        await push(self.session, *items, queued=queued or None, queue_max=20)

    async def transact(self) -> None:
        await transaction(self.session, items=self._items())

    async def work(self) -> None:
        some = self.chance.choice([2, 10, 100])
        claimed = await claim(
            self.session, partitions_max=self.chance.randint(1, 8), items_max=some
        )
        if not claimed.rows:
            return
        if self.chance.random() < 0.2:
            failed_id = self.chance.choice(claimed.ids)
            await give_back(self.session, claimed, failed_id=failed_id, error="x", is_counted=True)
            return
        try:
            await run(self.session, claimed, lock_timeout_ms=_RUN_WAIT_MS)
        except asyncpg.PostgresError:
            await give_back(self.session, claimed)
            raise

    async def settle(self) -> None:
        failed = await self.session.fetchval(
            "SELECT id FROM queen.operation_queue WHERE status = 'failed' LIMIT 1"
        )
        if failed is not None:
            await settle(self.session, failed, self.chance.choice(["retry", "discard"]))

    async def sweep(self) -> None:
        await self.session.fetchval(load_queries("operations")["sweep_operations"], 0, 50)

    async def clear(self) -> None:
        name = self.chance.choice([None, *_NAMES])
        queue = self.chance.choice(self.queues)
        await self.session.execute("SELECT queen.clear_queue($1, $2)", queue, name)

    async def delete(self) -> None:
        queue = self.chance.choice(self.queues)
        await self.session.execute("SELECT queen.delete_queue($1)", queue)
        await self.ensure()
        await self.session.execute(
            "UPDATE queen.queues SET max_size = $2, on_failed_operation = $3 WHERE name = $1",
            queue,
            self.chance.choice([0, 30]),
            self.chance.choice(["stop", "continue"]),
        )

    async def run(self) -> None:
        steps = [self.push, self.push_accepted, self.push_in_part, self.transact, self.work]
        steps += [*steps, *steps, self.work, self.work, self.settle, self.sweep, self.ensure]
        steps += [self.clear, self.delete]
        await self.ensure()
        for _ in range(_STEPS):
            step = self.chance.choice(steps)
            try:
                await step()
                self.done[step.__name__] += 1
            except asyncpg.PostgresError as error:
                is_held = step == self.work and isinstance(error, asyncpg.LockNotAvailableError)
                if error.sqlstate not in _EXPECTED and not is_held:
                    raise AssertionError(f"{step.__name__}: {error.sqlstate} {error}") from error


async def test_operations_and_all_around_them_never_deadlock(
    database: asyncpg.Connection, connect: Connect
) -> None:
    queues = [unique(), unique()]
    chaos = [_Chaos(await connect(), queues, seed) for seed in range(_SESSIONS)]
    await asyncio.gather(*(one.run() for one in chaos))
    done = sum((one.done for one in chaos), Counter())
    assert len(done) == 10 and min(done.values()) > 0, done
    # What a deletion could not wait for is removed later.
    await chaos[0].sweep()
    orphans = await database.fetchval(
        "SELECT count(*) FROM queen.operation_queue o WHERE NOT EXISTS"
        " (SELECT FROM queen.partition_lookup l WHERE l.partition_id = o.partition_id)"
    )
    assert orphans == 0
