"""The broker's SQL functions in short calls, and a way to see that a session waits for another.

Calls take the session first, so that a test reads as a list of who does what.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from queenmq.ids import new_lease_id
from tests.support.broker import SOON_S
from tests.support.waiting import wait_until_async

Connect = Callable[[], Awaitable[asyncpg.Connection]]

#: The consumer group of callers that name none.
QUEUE_MODE = "__QUEUE_MODE__"


class Item(NamedTuple):
    """One message to push."""

    partition_id: UUID
    payload: Any
    transaction_id: str | None = None


class Pushed(NamedTuple):
    """Message ids and outcome letters, in item order."""

    message_ids: list[str]
    outcomes: str


class Want(NamedTuple):
    """One pop request: the partitions to try, in order."""

    partition_ids: Sequence[UUID]
    group: str = QUEUE_MODE
    batch: int = 10
    auto_ack: bool = False


class Popped(NamedTuple):
    """The result of a call for one candidate."""

    request: int
    partition_id: UUID
    outcome: str
    lease_id: UUID | None
    has_more: bool | None
    due_ms: float | None
    messages: list[dict[str, Any]]

    @property
    def data(self) -> list[Any]:
        return [message["data"] for message in self.messages]


class Ack(NamedTuple):
    """One message to settle."""

    partition_id: UUID
    transaction_id: str
    lease_id: UUID | None = None
    status: str = "completed"
    group: str = QUEUE_MODE


async def ensure(session: asyncpg.Connection, queue: str, *names: str) -> list[UUID]:
    """The ids of partitions, created where needed, in the order of the names."""
    names = names or ("Default",)
    rows = await session.fetch(
        "SELECT partition_name, partition_id FROM queen.ensure_partitions($1, $2, NULL)",
        [queue] * len(names),
        list(names),
    )
    ids = {row["partition_name"]: row["partition_id"] for row in rows}
    return [ids[name] for name in names]


async def configure(session: asyncpg.Connection, queue: str, **columns: Any) -> None:
    """Create a queue with some options changed, by column name."""
    await ensure(session, queue)
    for column, value in columns.items():
        await session.execute(
            f"UPDATE queen.queues SET {column} = $2 WHERE name = $1", queue, value
        )


def push_arguments(items: Sequence[Item]) -> list[Any]:
    """The columns that push_messages and commit_transaction take."""
    partition_ids = sorted({item.partition_id for item in items})
    return [
        partition_ids,
        [partition_ids.index(item.partition_id) + 1 for item in items],
        [item.transaction_id for item in items],
        None,
        [json.dumps(item.payload) for item in items],
        None,
        None,
    ]


async def push(
    session: asyncpg.Connection,
    *items: Item,
    lock_timeout_ms: int | None = None,
    queued: Sequence[UUID] | None = None,
    queue_max: int = 1_000,
    checks_operations_first: bool = False,
    is_accepted: bool = False,
) -> Pushed:
    """One push call, for one request."""
    row = await session.fetchrow(
        "SELECT message_ids, outcomes FROM queen.push_messages("
        "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        *push_arguments(items),
        [len(items)],
        queued,
        queue_max,
        checks_operations_first,
        is_accepted,
        lock_timeout_ms,
    )
    assert row is not None
    return Pushed(row["message_ids"], row["outcomes"])


async def push_all(session: asyncpg.Connection, partition_id: UUID, *payloads: Any) -> Pushed:
    """Push payloads without ids of their own to one partition."""
    return await push(session, *(Item(partition_id, payload) for payload in payloads))


async def pop(
    session: asyncpg.Connection, *wants: Want, apart_count: int | None = None
) -> list[Popped]:
    """One pop call for many requests; one element per candidate that was answered."""
    columns: list[list[Any]] = [[], [], [], [], [], []]
    for number, want in enumerate(wants, 1):
        lease_id = new_lease_id(want.partition_ids[0])
        for partition_id in want.partition_ids:
            row = (number, partition_id, want.group, want.batch, want.auto_ack, lease_id)
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    rows = await session.fetch(
        "SELECT * FROM queen.pop_messages_batch($1, $2, $3, $4, $5, $6, $7)", *columns, apart_count
    )
    return [
        Popped(
            row["request"],
            row["partition_id"],
            row["outcome"],
            UUID(row["lease_id"]) if row["lease_id"] else None,
            row["has_more"],
            row["due_ms"],
            json.loads(f"[{row['messages'] or ''}]"),
        )
        for row in rows
    ]


async def pop_one(
    session: asyncpg.Connection, partition_id: UUID, group: str = QUEUE_MODE, **more: Any
) -> Popped:
    """Pop one partition for one request; the row must not be locked by anybody."""
    (popped,) = await pop(session, Want([partition_id], group, **more))
    return popped


async def resolve(session: asyncpg.Connection, queue: str, *groups: str) -> list[list[UUID]]:
    """The deliverable partitions of a queue for each group."""
    nothing = [None] * len(groups)
    rows = await session.fetch(
        "SELECT * FROM queen.pop_sm_resolve($1, $2, $2, $2, $3, $4::text[]::xid8[], '{}', $5,"
        " 1000, 60000, NULL) ORDER BY pair",
        [queue] * len(groups),
        nothing,
        list(groups),
        nothing,
        [0] * len(groups),
    )
    assert len(rows) == len(groups)
    return [row["partition_ids"] for row in rows]


def ack_arguments(acks: Sequence[Ack]) -> list[Any]:
    """The columns that ack_messages and commit_transaction take."""
    return [
        [ack.partition_id for ack in acks],
        [ack.group for ack in acks],
        [ack.transaction_id for ack in acks],
        [ack.lease_id for ack in acks],
        [ack.status for ack in acks],
        [None] * len(acks),
    ]


async def ack(session: asyncpg.Connection, *acks: Ack) -> list[asyncpg.Record]:
    """One ack call; a result per item."""
    return await session.fetch(
        "SELECT * FROM queen.ack_messages($1, $2, $3, $4, $5, $6, false, NULL) ORDER BY ordinal",
        *ack_arguments(acks),
    )


async def ack_completed(
    session: asyncpg.Connection, *leases: Sequence[Ack]
) -> list[dict[str, Any]]:
    """One call that completes messages of leases, in order; a result per message, as ack has."""
    row = await session.fetchrow(
        "SELECT * FROM queen.ack_completed($1, $2, $3, $4, $5, 10000)",
        [acks[0].partition_id for acks in leases],
        [acks[0].group for acks in leases],
        [acks[0].lease_id for acks in leases],
        [len(acks) for acks in leases],
        ["\n".join(ack.transaction_id for ack in acks) for acks in leases],
    )
    assert row is not None
    whole = {place: at for at, place in enumerate(row["places"] or ())}
    rest = iter(range(len(row["rest_errors"] or ())))
    results = []
    for place, acks in enumerate(leases, 1):
        at = whole.get(place)
        for _ in acks:
            if at is not None:
                names = row["queue_names"][at], row["partition_names"][at]
                result = (None, *names, row["are_released"][at], row["have_more"][at])
            else:
                columns = ("errors", "queue_names", "partition_names", "released", "more")
                one = next(rest)
                result = tuple(row[f"rest_{column}"][one] for column in columns)
            keys = ("error", "queue_name", "partition_name", "lease_released", "has_more")
            found = dict(zip(keys, result, strict=True))
            results.append({**found, "success": found["error"] is None, "dlq": False})
    return results


def acks_of(popped: Popped, *, group: str = QUEUE_MODE, status: str = "completed") -> list[Ack]:
    """Return the acks of everything that a pop delivered."""
    return [
        Ack(popped.partition_id, message["transactionId"], popped.lease_id, status, group)
        for message in popped.messages
    ]


async def transaction(
    session: asyncpg.Connection,
    *,
    items: Sequence[Item] = (),
    acks: Sequence[Ack] = (),
    leases: Sequence[UUID] = (),
    lock_timeout_ms: int = 10_000,
) -> asyncpg.Record:
    """One call of commit_transaction."""
    row = await session.fetchrow(
        "SELECT * FROM queen.commit_transaction("
        "$1, $2, $3, $4, $5, $6, $7, 1000, $8, $9, $10, $11, $12, $13, $14, $15)",
        *push_arguments(items),
        *ack_arguments(acks),
        list(leases),
        lock_timeout_ms,
    )
    assert row is not None
    return row


async def renew(session: asyncpg.Connection, lease_id: UUID, seconds: int = 60) -> asyncpg.Record:
    """Extend a lease."""
    row = await session.fetchrow(
        "SELECT * FROM queen.renew_leases($1, $2, NULL)", [lease_id], [seconds]
    )
    assert row is not None
    return row


async def release(session: asyncpg.Connection, popped: Popped, group: str = QUEUE_MODE) -> int:
    """Hand a lease back; how many pairs were released."""
    count: int = await session.fetchval(
        "SELECT count(*) FROM queen.pop_sm_release($1, $2, $3, NULL)",
        [popped.partition_id],
        [group],
        [popped.lease_id],
    )
    return count


async def expire(session: asyncpg.Connection, partition_id: UUID, group: str = QUEUE_MODE) -> None:
    """Let the lease of a pair run out."""
    await session.execute(
        "UPDATE queen.partition_consumers SET lease_expires_at = now() - interval '1 second'"
        " WHERE partition_id = $1 AND consumer_group = $2 AND lease_expires_at IS NOT NULL",
        partition_id,
        group,
    )


async def cursor(
    session: asyncpg.Connection, partition_id: UUID, group: str = QUEUE_MODE
) -> asyncpg.Record | None:
    """The row of a (partition, group) pair."""
    return await session.fetchrow(
        "SELECT *, coalesce(lease_expires_at > clock_timestamp(), false) AS is_leased"
        " FROM queen.partition_consumers WHERE partition_id = $1 AND consumer_group = $2",
        partition_id,
        group,
    )


async def seqs(session: asyncpg.Connection, partition_id: UUID) -> list[int]:
    """The sequence numbers that a partition holds."""
    rows = await session.fetch(
        "SELECT seq FROM queen.messages WHERE partition_id = $1 ORDER BY seq", partition_id
    )
    return [row["seq"] for row in rows]


async def start_blocked(
    observer: asyncpg.Connection, session: asyncpg.Connection, call: Coroutine[Any, Any, Any]
) -> asyncio.Task[Any]:
    """Start a call on a session and come back once the session waits for a lock."""
    pid = session.get_server_pid()
    task = asyncio.create_task(call)

    async def is_blocked() -> bool:
        if task.done():
            raise AssertionError(f"the call did not wait: {task!r}")
        blockers: list[int] = await observer.fetchval("SELECT pg_blocking_pids($1)", pid)
        return bool(blockers)

    try:
        await wait_until_async(is_blocked, timeout_s=SOON_S, what=f"session {pid} to wait")
    except BaseException:
        task.cancel()
        raise
    return task
