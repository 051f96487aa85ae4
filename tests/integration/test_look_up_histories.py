"""Random histories: a look-up from the last horizon finds exactly what a search of everything does.

Several sessions push, some in transactions that end late or not well; others pop, ack, fail, let
leases run out, delete messages and change queues. Both kinds of look-up are made in one snapshot.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from uuid import UUID

import asyncpg
import pytest

from tests.isolation.sessions import (
    Connect,
    Popped,
    ack,
    acks_of,
    configure,
    ensure,
    expire,
    pop_one,
    push_all,
    release,
)
from tests.support.broker import unique
from tests.support.look_ups import Ask, Found, has_pending, look_up

GROUPS = ("__QUEUE_MODE__", "audit")
STEPS = 150


class History:
    """Two queues of one namespace, and whoever works on them."""

    def __init__(
        self, chance: random.Random, observer: asyncpg.Connection, producers: list
    ) -> None:
        self.chance = chance
        self.observer = observer
        self.producers: list[asyncpg.Connection] = producers
        #: Open transactions, and the partitions whose rows they hold.
        self.open: dict[asyncpg.Connection, tuple[object, set[UUID]]] = {}
        self.leases: list[tuple[str, Popped]] = []
        self.places: list[UUID] = []
        self.namespace = unique("space")
        self.queues = [f"{self.namespace}.task.{number}" for number in range(2)]
        self.last: dict[Ask, Found] = {}

    async def begin(self) -> None:
        for queue in self.queues:
            self.places += await ensure(self.observer, queue, "a", "b", "c")
        await configure(self.observer, self.queues[0], retry_delay=60_000)

    def asks(self) -> list[Ask]:
        scopes = [*(Ask(queue) for queue in self.queues), Ask(namespace=self.namespace)]
        return [scope._replace(group=group) for scope in scopes for group in GROUPS]

    def free_place(self) -> UUID | None:
        held = {place for _, places in self.open.values() for place in places}
        free = [place for place in self.places if place not in held]
        return self.chance.choice(free) if free else None

    async def step(self) -> None:
        steps: dict[Callable[[], Awaitable[None]], int] = {
            self.push: 5,
            self.begin_transaction: 2,
            self.push_in_transaction: 3,
            self.end_transaction: 2,
            self.pop: 6,
            self.settle: 5,
            self.let_expire: 1,
            self.delete: 1,
            self.make_partition: 1,
            self.compare: 4,
        }
        await self.chance.choices(list(steps), weights=list(steps.values()))[0]()

    async def push(self) -> None:
        if (place := self.free_place()) is not None:
            await push_all(self.observer, place, *range(self.chance.randint(1, 3)))

    async def begin_transaction(self) -> None:
        idle = [one for one in self.producers if one not in self.open]
        if idle:
            session = self.chance.choice(idle)
            transaction = session.transaction()
            await transaction.start()
            await session.fetchval("SELECT pg_current_xact_id()")
            self.open[session] = (transaction, set())

    async def push_in_transaction(self) -> None:
        place = self.free_place()
        if self.open and place is not None:
            session = self.chance.choice(list(self.open))
            self.open[session][1].add(place)
            await push_all(session, place, *range(self.chance.randint(1, 3)))

    async def end_transaction(self) -> None:
        if self.open:
            transaction, _ = self.open.pop(self.chance.choice(list(self.open)))
            await (transaction.commit if self.chance.random() < 0.7 else transaction.rollback)()

    async def pop(self) -> None:
        group, place = self.chance.choice(GROUPS), self.chance.choice(self.places)
        is_auto_ack = self.chance.random() < 0.3
        popped = await pop_one(
            self.observer, place, group, batch=self.chance.randint(1, 3), auto_ack=is_auto_ack
        )
        if popped.outcome == "granted" and not is_auto_ack:
            self.leases.append((group, popped))

    async def settle(self) -> None:
        if self.leases:
            at = self.chance.randrange(len(self.leases))
            group, popped = self.leases.pop(at)
            if self.chance.random() < 0.2:
                await release(self.observer, popped, group)
            else:
                status = self.chance.choice(["completed", "completed", "failed", "retry", "dlq"])
                await ack(self.observer, *acks_of(popped, group=group, status=status))

    async def let_expire(self) -> None:
        await expire(self.observer, self.chance.choice(self.places), self.chance.choice(GROUPS))

    async def delete(self) -> None:
        held = {place for _, places in self.open.values() for place in places}
        if not held:
            await self.observer.execute(
                "SELECT queen.clear_queue($1, $2)", self.chance.choice(self.queues), "a"
            )

    async def make_partition(self) -> None:
        name = unique("p")
        self.places += await ensure(self.observer, self.chance.choice(self.queues), name)

    async def compare(self) -> None:
        asks = self.asks()
        since = [
            ask._replace(horizon=last.horizon, known=last.left_behind)
            if (last := self.last.get(ask))
            else ask
            for ask in asks
        ]
        async with self.observer.transaction(isolation="repeatable_read"):
            news = await look_up(self.observer, *since)
            whole = await look_up(self.observer, *asks)
            quick = await has_pending(self.observer, *since)
            sure = await has_pending(self.observer, *asks)
        for ask, one, all_, *answers in zip(asks, news, whole, quick, sure, strict=True):
            assert set(one.ready) == set(all_.ready), ask
            assert one.held == all_.held, ask
            assert one.horizon == all_.horizon and one.is_complete and all_.is_complete
            assert answers == [bool(all_.ready)] * 2, ask
            # Sometimes a broker goes on from an older look-up.
            if self.chance.random() < 0.8:
                self.last[ask] = one

    async def end(self) -> None:
        while self.open:
            await self.end_transaction()
        await self.compare()


@pytest.mark.parametrize("seed", range(8))
async def test_look_up_from_the_horizon_finds_what_a_whole_one_finds(
    database: asyncpg.Connection, connect: Connect, seed: int
) -> None:
    history = History(random.Random(seed), database, [await connect() for _ in range(2)])
    await history.begin()
    for _ in range(STEPS):
        await history.step()
    await history.end()
