"""Random histories: every place that counts what groups have before them agrees with a model.

Producers push, some in transactions that end late; groups subscribe to all of the queue or to one
partition, pop, seek and are deleted; messages are deleted. At the end every group gets exactly what
the model says.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from queenmq.storage.sql_files import load_queries
from tests.isolation.sessions import Connect, ensure, pop_one, push_all, resolve
from tests.support.broker import unique
from tests.support.group_model import QUEUE_MODE, Message, Model

GROUPS = (QUEUE_MODE, "a", "b", "c")
NAMES = ("p0", "p1", "p2", "p3", "p4")
STEPS = 120
_LONG_AGO = datetime.fromisoformat("2001-01-01T00:00:00Z")


class History:
    """A queue, its model, and whoever works on both."""

    def __init__(
        self, chance: random.Random, session: asyncpg.Connection, producer: asyncpg.Connection
    ) -> None:
        self.chance = chance
        self.session = session
        self.producer = producer
        self.queue = unique()
        self.model = Model()
        self.places: dict[str, UUID] = {}
        self.numbers = itertools.count()
        #: A transaction that is open, and what it has pushed.
        self.open: tuple[Any, list[tuple[str, list[int]]]] | None = None

    async def step(self) -> None:
        steps: dict[Callable[[], Awaitable[None]], int] = {
            self.make_partition: 2,
            self.push: 6,
            self.push_in_transaction: 3,
            self.end_transaction: 3,
            self.subscribe: 4,
            self.pop: 5,
            self.seek: 1,
            self.seek_partition: 1,
            self.delete_group: 1,
            self.delete_message: 1,
            self.compare: 4,
        }
        await self.chance.choices(list(steps), weights=list(steps.values()))[0]()

    async def make_partition(self) -> None:
        left = [name for name in NAMES if name not in self.places]
        if left:
            (self.places[left[0]],) = await ensure(self.session, self.queue, left[0])
            self.model.partitions[left[0]] = []

    def free(self) -> list[str]:
        """Partitions whose row no open transaction holds."""
        held = {name for name, _ in self.open[1]} if self.open else set()
        return [name for name in self.places if name not in held]

    def payloads(self) -> list[int]:
        return list(itertools.islice(self.numbers, self.chance.randint(1, 3)))

    async def push(self) -> None:
        if free := self.free():
            name, data = self.chance.choice(free), self.payloads()
            await push_all(self.session, self.places[name], *data)
            await self.note(name, data)

    async def note(self, name: str, data: list[int]) -> None:
        """Committed just now."""
        messages = self.model.partitions[name]
        rows = await self.session.fetch(
            "SELECT created_at, payload::text FROM queen.messages WHERE partition_id = $1"
            " AND seq > $2 ORDER BY seq",
            self.places[name],
            len(messages),
        )
        assert [json.loads(row[1]) for row in rows] == data
        messages += [Message(row[0], json.loads(row[1])) for row in rows]

    async def push_in_transaction(self) -> None:
        if not self.places:
            return
        if self.open is None:
            transaction = self.producer.transaction()
            await transaction.start()
            self.open = transaction, []
        name, data = self.chance.choice(list(self.places)), self.payloads()
        await push_all(self.producer, self.places[name], *data)
        self.open[1].append((name, data))

    async def end_transaction(self) -> None:
        if self.open is None:
            return
        (transaction, pushed), self.open = self.open, None
        if self.chance.random() < 0.2:
            await transaction.rollback()
            return
        await transaction.commit()
        for name in dict(pushed):
            await self.note(name, [n for one, data in pushed if one == name for n in data])

    def some_time(self) -> datetime:
        times = [one.created_at for each in self.model.partitions.values() for one in each]
        return self.chance.choice(times) if times else _LONG_AGO

    async def subscribe(self) -> None:
        group = self.chance.choice(GROUPS[1:])
        partition = self.chance.choice([*self.places, "", ""])
        time = self.some_time() if self.chance.random() < 0.3 else None
        await self.session.execute(
            "SELECT queen.subscribe_groups($1, $2, $3, $4)",
            [self.queue],
            [partition],
            [group],
            [time],
        )
        self.model.subscribe(group, partition, time)

    async def pop(self) -> None:
        if self.places:
            group, name = self.chance.choice(GROUPS), self.chance.choice(list(self.places))
            await self.pop_from(group, name, self.chance.randint(1, 4))

    async def pop_from(self, group: str, name: str, count: int) -> None:
        """Popped until something was got: a hole is stepped over by a call of its own."""
        expected = self.model.pop(group, name, count)
        got: list[int] = []
        while True:
            one = await pop_one(
                self.session, self.places[name], group, batch=count - len(got), auto_ack=True
            )
            got += one.data
            if one.outcome == "none" or len(got) >= len(expected) > 0:
                break
        assert got == expected

    async def seek(self) -> None:
        group = self.chance.choice(GROUPS)
        time = self.some_time() if self.chance.random() < 0.6 else None
        await self.session.fetch(
            "SELECT queen.seek_group($1, $2, NULL, $3)", group, self.queue, time
        )
        self.model.seek(group, time)

    async def seek_partition(self) -> None:
        if self.places:
            group, name = self.chance.choice(GROUPS), self.chance.choice(list(self.places))
            await self.session.fetch(
                "SELECT queen.seek_group($1, $2, $3, NULL)", group, self.queue, name
            )
            self.model.seek_partition(group, name)

    async def delete_group(self) -> None:
        group, forgets = self.chance.choice(GROUPS), self.chance.random() < 0.5
        await self.session.fetchval(
            "SELECT queen.delete_group($1, $2, $3)", group, self.queue, forgets
        )
        self.model.group(group).cursors.clear()
        if forgets:
            self.model.group(group).starts.clear()

    async def delete_message(self) -> None:
        kept = [
            (name, place)
            for name in self.free()
            for place, one in enumerate(self.model.partitions[name])
            if one.is_kept
        ]
        if kept:
            name, place = self.chance.choice(kept)
            await self.session.execute(
                "SELECT queen.delete_message($1, (SELECT id::text FROM queen.messages"
                " WHERE partition_id = $1 AND seq = $2), 1000)",
                self.places[name],
                place + 1,
            )
            self.model.partitions[name][place].is_kept = False

    async def compare(self) -> None:
        names = {place: name for name, place in self.places.items()}
        lags = self.model.lags()
        rows = await self.session.fetch(
            "SELECT consumer_group, partition_id, offset_lag, oldest_at FROM queen.group_lags(NULL)"
        )
        found = {(row[0], names[row[1]]): (row[2], row[3]) for row in rows}
        assert len(found) == len(rows), "a pair has two rows"
        assert {pair: lag for pair, (lag, _) in found.items() if lag} == lags
        for (group, name), (lag, oldest_at) in found.items():
            ahead = self.model.ahead(group, name)
            assert oldest_at == (ahead[0].created_at if lag else None)
        counts = await self.session.fetch("SELECT * FROM queen.partition_counts(NULL)")
        pending = {names[row["partition_id"]]: row["pending"] for row in counts}
        assert pending == self.model.pending()
        for group in GROUPS:
            await self.compare_group(group, names, lags)
            await self.compare_pages(group, {pair: lag for pair, (lag, _) in found.items()})
        listed = await self.session.fetch(load_queries("groups")["list_groups"])
        known = {name for name, group in self.model.groups.items() if group.is_known}
        assert {row["consumer_group"] for row in listed} == known
        for row in listed:
            own = [lag for (group, _), lag in lags.items() if group == row["consumer_group"]]
            assert (row["total_lag"], row["partitions_with_lag"]) == (sum(own), len(own))

    async def compare_group(
        self, group: str, names: dict[UUID, str], lags: dict[tuple[str, str], int]
    ) -> None:
        """Compare a search with `why`, including for an unknown group."""
        wanted = {name for name in self.places if self.model.ahead(group, name)}
        if not self.places:
            return
        (ids,) = await resolve(self.session, self.queue, group)
        assert {names[place] for place in ids} == wanted
        facts = json.loads(
            await self.session.fetchval(
                "SELECT queen.queue_facts($1, NULL, $2, 10)::text", self.queue, group
            )
        )
        total = sum(len(self.model.ahead(group, name)) for name in self.places)
        assert (facts["behind"]["backlog"], facts["behind"]["behind"]) == (total, len(wanted))
        if self.model.group(group).is_known:
            assert total == sum(lag for (name, _), lag in lags.items() if name == group)

    async def compare_pages(self, group: str, found: dict[tuple[str, str], int]) -> None:
        """Whatever their order, the pages of a group have what it has before it."""
        own = {name: lag for (each, name), lag in found.items() if each == group}
        for order in ("lag", "name", "recent"):
            rows = [
                row
                for offset in range(0, len(NAMES), 2)
                for row in await self.session.fetch(
                    load_queries("steering")["list_group_partitions"],
                    group, self.queue, "p", order, False, 2, offset,
                )
            ]  # fmt: skip
            assert {row["partition_name"]: row["offset_lag"] for row in rows} == own
            assert all(row["total"] == len(own) == len(rows) for row in rows)
            if order == "name":
                assert [row["partition_name"] for row in rows] == sorted(own)

    async def drain(self) -> None:
        """Everybody gets the rest, and then nobody has anything before them."""
        await self.end_transaction()
        await self.compare()
        for group, name in itertools.product(GROUPS, self.places):
            await self.pop_from(group, name, 1_000)
        await self.compare()
        assert self.model.lags() == {}


@pytest.mark.parametrize("seed", range(3))
async def test_everything_that_counts_agrees_with_the_model(
    database: asyncpg.Connection, connect: Connect, seed: int
) -> None:
    history = History(random.Random(seed), database, await connect())
    for _ in range(STEPS):
        await history.step()
    await history.drain()
