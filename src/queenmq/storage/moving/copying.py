"""Copies one table of a move: two calls at once, one reads blocks and the other writes them.

A failure of one side ends the other. All tables of the old database are locked and all brokers are
paused meanwhile, so no end may wait for a connection that is gone or for a full queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import asyncpg

from queenmq.errors import StorageUnavailable
from queenmq.storage.moving.plan import Table

#: Blocks that were read and are not written yet.
_BLOCKS_MAX = 64

First = TypeVar("First")
Second = TypeVar("Second")


async def copy_table(
    source: asyncpg.Connection,
    target: asyncpg.Connection,
    table: Table,
    tell_size: Callable[[int], None],
) -> int:
    """Copy one table and return its size in bytes. Calls `tell_size` with the bytes so far."""
    blocks: asyncio.Queue[bytes | None] = asyncio.Queue(_BLOCKS_MAX)
    size = 0

    async def read() -> None:
        await source.copy_from_query(table.reads, output=blocks.put, format="binary")
        # Only a complete table ends the stream. A failure cancels the writer.
        await blocks.put(None)

    async def take() -> AsyncIterator[bytes]:
        nonlocal size
        while (block := await blocks.get()) is not None:
            size += len(block)
            tell_size(size)
            yield block

    writing = target.copy_to_table(
        table.relation,
        schema_name=table.schema,
        columns=table.columns,
        source=take(),
        format="binary",
    )
    await run_both(_until_lost(source, "old", read()), _until_lost(target, "new", writing))
    return size


async def run_both(
    first: Coroutine[Any, Any, First], second: Coroutine[Any, Any, Second]
) -> tuple[First, Second]:
    """Run both at once and return their results. Once one fails, cancel the other and await it."""
    tasks = asyncio.ensure_future(first), asyncio.ensure_future(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until_lost(
    connection: asyncpg.Connection, name: str, work: Coroutine[Any, Any, Any]
) -> None:
    """Do the work. Raise StorageUnavailable when the connection is lost meanwhile.

    The driver does not end a copy that waits until it may send more: nothing tells it that this
    will never be.
    """
    task = asyncio.ensure_future(work)

    def end(_: object) -> None:
        task.cancel()

    connection.add_termination_listener(end)
    try:
        await task
    except asyncio.CancelledError:
        own = asyncio.current_task()
        if own is None or own.cancelling():
            raise
        raise StorageUnavailable(
            f"the connection to the {name} database was lost during the copy; check that server"
            " and try again"
        ) from None
    finally:
        connection.remove_termination_listener(end)
