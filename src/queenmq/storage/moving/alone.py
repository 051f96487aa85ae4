"""Makes sure that one process at a time moves a database, whichever broker or command it is."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from queenmq.errors import MoveError
from queenmq.storage.connection.connecting import open_connection
from queenmq.storage.connection.driver_errors import translate_error
from queenmq.storage.sql_files import load_queries


@contextlib.asynccontextmanager
async def moving_alone(source_url: str, *, timeout_ms: int = 10_000) -> AsyncIterator[None]:
    """Hold the right to move this database. Raises MoveError while another session has it.

    The right is an advisory lock of the old database, so it ends with the process that holds it. It
    belongs to a transaction, because a pooler may hand sessions around between transactions.
    """
    async with open_connection(source_url, timeout_ms=timeout_ms) as session:
        with translate_error():
            opened = session.transaction()
            await opened.start()
            if not await session.fetchval(load_queries("moving")["take_turn"]):
                raise MoveError(
                    "a copy of this database is running; wait for its end, see"
                    " GET /api/v1/migration/status"
                )
        # Closing the connection ends the transaction, also after the server has gone.
        yield
