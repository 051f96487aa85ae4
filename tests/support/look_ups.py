"""The look-up functions of the database in short calls, with named results."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from queenmq.storage.sql_files import load_queries
from tests.isolation.sessions import QUEUE_MODE

_SQL = load_queries("calls")


class Ask(NamedTuple):
    """One place to look at for one group, as pop_sm_resolve takes it."""

    queue: str | None = None
    group: str = QUEUE_MODE
    partition: str | None = None
    namespace: str | None = None
    task: str | None = None
    horizon: str | None = None
    known: tuple[UUID, ...] = ()


class Found(NamedTuple):
    """The result of a look-up for one place."""

    is_found: bool
    is_complete: bool
    ready: list[UUID]
    #: A letter for each partition that must wait.
    held: dict[UUID, str]
    next_due_ms: float | None
    horizon: str

    @property
    def left_behind(self) -> tuple[UUID, ...]:
        """Return the held partitions that a broker passes to the next look-up."""
        return (*self.ready, *self.held)


def _columns(asks: Iterable[Ask]) -> list[list[Any]]:
    asks = list(asks)
    return [
        [ask.queue for ask in asks],
        [ask.partition for ask in asks],
        [ask.namespace for ask in asks],
        [ask.task for ask in asks],
        [ask.group for ask in asks],
        [ask.horizon for ask in asks],
        [one for ask in asks for one in ask.known],
        [len(ask.known) for ask in asks],
    ]


async def look_up(
    session: asyncpg.Connection,
    *asks: Ask,
    limit: int = 1_000,
    budget_ms: int = 10_000,
    whole_max: int | None = None,
) -> list[Found]:
    """One call of pop_sm_resolve; a result per pair that was looked at."""
    sizes = (limit, budget_ms, whole_max)
    rows = await session.fetch(_SQL["pop_sm_resolve"], *_columns(asks), *sizes)
    return [
        Found(
            row["is_found"],
            row["is_complete"],
            row["partition_ids"],
            dict(zip(row["held_ids"], row["held_whys"], strict=True)),
            row["next_due_ms"],
            row["horizon"],
        )
        for row in sorted(rows, key=itemgetter("pair"))
    ]


async def look_at(session: asyncpg.Connection, ask: Ask, **more: int) -> Found:
    """One place."""
    (found,) = await look_up(session, ask, **more)
    return found


async def has_pending(session: asyncpg.Connection, *asks: Ask) -> list[bool]:
    """One call of has_pending_messages."""
    answers: list[bool] = await session.fetchval(_SQL["has_pending_messages"], *_columns(asks))
    return answers


async def age(session: asyncpg.Connection, partition_id: UUID, seconds: int) -> None:
    """Make all messages of a partition older."""
    for table, column in (
        ("messages", "created_at"),
        ("partition_lookup", "last_message_created_at"),
    ):
        await session.execute(
            f"UPDATE queen.{table} SET {column} = {column} - make_interval(secs => $2)"
            " WHERE partition_id = $1",
            partition_id,
            seconds,
        )


class Next(NamedTuple):
    """The next slice of a queue for one group, as walk_partitions takes it."""

    queue: str
    after: UUID
    group: str = QUEUE_MODE


async def look_on(
    session: asyncpg.Connection, *asks: Next, limit: int, budget_ms: int = 10_000
) -> list[asyncpg.Record]:
    """Call walk_partitions once. Return a row per pair that it searched."""
    return await session.fetch(
        _SQL["walk_partitions"],
        [ask.queue for ask in asks],
        [ask.group for ask in asks],
        [ask.after for ask in asks],
        limit,
        budget_ms,
    )
