"""What a test does to operations from a SQL session while brokers run."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from tests.isolation.sessions import ensure
from tests.support.broker import SOON_S
from tests.support.operations import enqueue
from tests.support.waiting import wait_until_async

#: Any load at all makes a push wait: a timer is always a little late.
EAGER = {"QUEEN_LOAD_PUSH_THRESHOLD": "0.000001", "QUEEN_LOAD_LAG_LIMIT_MS": "1"}


async def block(session: asyncpg.Connection, queue: str, partition: str = "Default") -> UUID:
    """Let an operation wait in a partition until `unblock`, so that pushes go behind it."""
    async with session.transaction():
        (place,) = await ensure(session, queue, partition)
        (blocker,) = await enqueue(session, place, "blocker")
        await session.execute(
            "UPDATE queen.operation_queue SET next_run_at = 'infinity' WHERE id = $1", blocker
        )
    return blocker


async def unblock(session: asyncpg.Connection) -> None:
    """Let everything run now."""
    await session.execute(
        "UPDATE queen.operation_queue SET next_run_at = '-infinity' WHERE status = 'pending'"
    )


async def wait_until_done(session: asyncpg.Connection, *, timeout_s: float = SOON_S) -> None:
    """Wait until no operation waits."""

    async def is_done() -> bool:
        waiting = await session.fetchval(
            "SELECT count(*) FROM queen.operation_queue WHERE is_blocking"
        )
        return bool(waiting == 0)

    try:
        await wait_until_async(is_done, timeout_s=timeout_s, what="all operations to be run")
    except AssertionError as error:
        rows = await session.fetch("SELECT * FROM queen.operation_queue WHERE is_blocking")
        error.add_note("\n".join(repr(dict(row)) for row in rows))
        raise


async def wait_for_status(session: asyncpg.Connection, operation_id: UUID, status: str) -> None:
    """Wait until an operation has come to this."""

    async def has_come() -> bool:
        found = await session.fetchval(
            "SELECT status FROM queen.operation_queue WHERE id = $1", operation_id
        )
        return bool(found == status)

    await wait_until_async(has_come, timeout_s=SOON_S, what=f"the operation to be {status}")


async def refuse_payload(session: asyncpg.Connection, text: str, *, code: str = "23514") -> None:
    """Storing a message with this payload fails from now on; each try is counted."""
    await session.execute("CREATE SEQUENCE IF NOT EXISTS public.tries")
    await session.execute(
        "CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF NEW.payload::text = '{text}' THEN PERFORM nextval('public.tries');"
        f" RAISE EXCEPTION 'no such payload here' USING ERRCODE = '{code}'; END IF;"
        " RETURN NEW; END $$"
    )
    await session.execute(
        "CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON queen.messages"
        " FOR EACH ROW EXECUTE FUNCTION public.refuse()"
    )


async def allow_payloads(session: asyncpg.Connection) -> None:
    """Everything can be stored again."""
    await session.execute("DROP TRIGGER refuse ON queen.messages")


async def tries(session: asyncpg.Connection) -> int:
    """How often the refused payload was tried."""
    row = await session.fetchrow("SELECT last_value, is_called FROM public.tries")
    assert row is not None
    return row["last_value"] if row["is_called"] else 0
