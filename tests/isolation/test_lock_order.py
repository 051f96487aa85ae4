"""Every call of the broker against every other, at random: they wait, but never in a circle."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from datetime import UTC, datetime
from uuid import UUID

import asyncpg

from queenmq.storage.sql_files import load_queries
from tests.isolation.sessions import (
    Ack,
    Connect,
    Item,
    Want,
    ack,
    ensure,
    expire,
    pop,
    push,
    release,
    renew,
    transaction,
)
from tests.support.broker import unique

_SESSIONS = 6
_STEPS = 200
_LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
_NAMES = [f"p{number}" for number in range(6)]


class _Chaos:
    """One session that does whatever a broker may do, with whatever it got hold of so far."""

    def __init__(self, session: asyncpg.Connection, queues: list[str], seed: int) -> None:
        self.session = session
        self.queues = queues
        self.chance = random.Random(seed)
        self.places: list[UUID] = []
        self.messages: list[tuple[UUID, str]] = []
        self.leases: list[UUID] = []
        self.done: Counter[str] = Counter()

    def _some(self, count: int = 4) -> list[UUID]:
        return self.chance.sample(self.places, min(count, len(self.places)))

    def _group(self) -> str:
        return self.chance.choice(["a", "b", f"fresh-{self.chance.randrange(40)}"])

    def _acks(self) -> list[Ack]:
        some = self.chance.sample(self.messages, min(4, len(self.messages)))
        return [Ack(place, name, group=self._group()) for place, name in some]

    async def ensure(self) -> None:
        names = self.chance.sample(_NAMES, len(_NAMES))
        self.places = await ensure(self.session, self.chance.choice(self.queues), *names)

    async def push(self) -> None:
        items = [Item(place, 1) for place in self._some()]
        pushed = await push(self.session, *items)
        stored = zip(items, pushed.message_ids, strict=True)
        self.messages += [(item.partition_id, name) for item, name in stored]

    async def pop(self) -> None:
        wants = [Want([place], self._group(), batch=2) for place in self._some()]
        for row in await pop(self.session, *wants):
            if row.lease_id is not None and row.messages:
                self.leases.append(row.lease_id)
                if self.chance.random() < 0.2:
                    await expire(self.session, row.partition_id, row.messages[0]["consumerGroup"])
                elif self.chance.random() < 0.2:
                    await release(self.session, row, row.messages[0]["consumerGroup"])

    async def ack(self) -> None:
        await ack(self.session, *self._acks())

    async def renew(self) -> None:
        if self.leases:
            await renew(self.session, self.chance.choice(self.leases))

    async def transact(self) -> None:
        items = [Item(place, 1) for place in self._some()]
        leases = self.leases[-1:] if self.chance.random() < 0.3 else []
        await transaction(self.session, items=items, acks=self._acks(), leases=leases)

    async def subscribe(self) -> None:
        # One group on several queues, as a pop by namespace does.
        count = len(self.queues)
        await self.session.execute(
            "SELECT queen.subscribe_groups($1, $2, $3, $4)",
            self.queues,
            [self.chance.choice(["", *_NAMES])] * count,
            [self._group()] * count,
            [None] * count,
        )

    async def seek(self) -> None:
        name = self.chance.choice([None, *_NAMES])
        time = self.chance.choice([None, _LONG_AGO])
        queue = self.chance.choice(self.queues)
        query = "SELECT queen.seek_group($1, $2, $3, $4)"
        await self.session.execute(query, self._group(), queue, name, time)

    async def delete_group(self) -> None:
        queue, starts = self.chance.choice(self.queues), self.chance.random() < 0.7
        query = "SELECT queen.delete_group($1, $2, $3)"
        await self.session.execute(query, self._group(), queue, starts)

    async def set_start(self) -> None:
        query = "SELECT queen.set_group_start($1, $2)"
        await self.session.execute(query, self._group(), _LONG_AGO)

    async def clear(self) -> None:
        name = self.chance.choice([None, *_NAMES])
        queue = self.chance.choice(self.queues)
        await self.session.execute("SELECT queen.clear_queue($1, $2)", queue, name)

    async def delete(self) -> None:
        queue = self.chance.choice(self.queues)
        await self.session.execute("SELECT queen.delete_queue($1)", queue)

    def _message(self) -> tuple[UUID, str]:
        return self.chance.choice(self.messages or [(self.places[0], "none")])

    async def delete_message(self) -> None:
        await self.session.execute("SELECT queen.delete_message($1, $2, 10000)", *self._message())

    async def bury(self) -> None:
        query = "SELECT queen.bury_message($1, $2, 'e', 10000)"
        await self.session.execute(query, *self._message())

    async def retry_letters(self) -> None:
        query = (
            "SELECT queen.retry_dead_letters($1, NULL, NULL, NULL, NULL, NULL, NULL, 5, 10, 10000)"
        )
        await self.session.execute(query, self.chance.choice(self.queues))

    async def purge_letters(self) -> None:
        query = load_queries("dead_letters")["purge_dead_letters"]
        queue = self.chance.choice(self.queues)
        await self.session.fetch(query, queue, None, None, None, None, None, 3)

    async def run(self) -> None:
        steps = [self.push, self.pop, self.ack, self.transact, self.subscribe, self.ensure]
        steps += [*steps, self.seek, self.delete_group, self.set_start]
        steps += [self.delete_message, self.bury, self.bury, self.retry_letters, self.purge_letters]
        steps += [*steps, self.renew, self.renew, self.clear, self.delete]
        await self.ensure()
        for _ in range(_STEPS):
            step = self.chance.choice(steps)
            try:
                await step()
                self.done[step.__name__] += 1
            except asyncpg.PostgresError as error:
                # Refusals with a code of our own are answers; anything else is a defect.
                is_lost_race = step == self.retry_letters and error.sqlstate == "40001"
                if not is_lost_race and not (error.sqlstate or "").startswith("QN"):
                    raise AssertionError(f"{step.__name__}: {error.sqlstate} {error}") from error


async def test_every_call_against_every_other_never_deadlocks(
    database: asyncpg.Connection, connect: Connect
) -> None:
    queues = [unique(), unique()]
    chaos = [_Chaos(await connect(), queues, seed) for seed in range(_SESSIONS)]
    await asyncio.gather(*(one.run() for one in chaos))
    done = sum((one.done for one in chaos), Counter())
    assert len(done) == 16 and min(done.values()) > 0, done
    await _assert_consistent(database)


async def _assert_consistent(database: asyncpg.Connection) -> None:
    """Check for consistency: no orphan, no gap, no cursor ahead of its partition."""
    orphans = await database.fetchval(
        "SELECT count(*) FROM queen.partition_consumers c WHERE NOT EXISTS"
        " (SELECT FROM queen.partition_lookup l WHERE l.partition_id = c.partition_id)"
    )
    strays = await database.fetchval(
        "SELECT count(*) FROM queen.messages m WHERE NOT EXISTS"
        " (SELECT FROM queen.partition_lookup l WHERE l.partition_id = m.partition_id"
        "  AND m.seq BETWEEN l.first_seq AND l.last_seq)"
    )
    gaps = await database.fetchval(
        "SELECT count(*) FROM queen.partition_lookup l WHERE l.last_seq - l.first_seq + 1 <>"
        " (SELECT count(*) FROM queen.messages m WHERE m.partition_id = l.partition_id)"
        " + (SELECT count(*) FROM queen.removed_messages r WHERE r.partition_id = l.partition_id)"
    )
    ahead = await database.fetchval(
        "SELECT count(*) FROM queen.partition_consumers c JOIN queen.partition_lookup l"
        " ON l.partition_id = c.partition_id WHERE c.cursor_seq > l.last_seq"
    )
    homeless = await database.fetchval(
        "SELECT count(*) FROM queen.partitions p FULL JOIN queen.partition_lookup l"
        " ON l.partition_id = p.id WHERE p.id IS NULL OR l.partition_id IS NULL"
    )
    assert (orphans, strays, gaps, ahead, homeless) == (0, 0, 0, 0, 0)
