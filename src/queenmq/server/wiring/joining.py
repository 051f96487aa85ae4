"""Brings a broker and its database together: at the start, or later when the database is there.

Without the database a broker keeps pushes on disk and refuses the rest. Once the database answers,
the schema is brought up to date, the spool of that database is opened, and the broker serves
everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from queenmq.errors import AccessRefused, QueenError, StorageUnavailable
from queenmq.server.orders import BrokerOrders
from queenmq.storage.connection.database import Database
from queenmq.storage.schema.migrator import migrate
from queenmq.storage.spool.pair import SpoolPair

logger = logging.getLogger(__name__)

#: Between two tries when the database answers, but something else is in the way.
_RETRY_S = 1.0


class Joining:
    """One broker's way to its database. `make_whole` is called once, when it is there."""

    def __init__(
        self,
        orders: BrokerOrders,
        database: Database,
        spool: SpoolPair,
        *,
        read_state: Callable[[], Awaitable[dict[str, Any]]],
        make_whole: Callable[[], Awaitable[None]],
    ) -> None:
        self._orders = orders
        self._database = database
        self._spool = spool
        self._read_state = read_state
        self._make_whole = make_whole
        self._task: asyncio.Task[None] | None = None
        self._never = asyncio.Event()
        self.is_joined = False
        self.database_id = orders.database_id

    async def start(self) -> None:
        """Join now, or prepare to join later. Raises errors that a retry cannot fix."""
        await self._database.open(is_lazy=True)
        try:
            if (missing := self._orders.missing) is not None:
                raise StorageUnavailable(missing.text, public=missing.public, reason=missing.reason)
            await self._join()
        except StorageUnavailable as error:
            if isinstance(error, AccessRefused) or not self._orders.may_wait:
                raise
            await self._spool.open(self.database_id)
            self._database.await_server(error, self._migrate)

    def wake(self) -> None:
        """Join again now, because the database is back."""
        if not self.is_joined and self._task is None:
            self._task = asyncio.create_task(self._keep_joining(), name="join")

    async def stop(self) -> None:
        """Stop trying."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _migrate(self) -> None:
        timeout_ms = self._orders.settings.db_connect_timeout_ms
        await migrate(self._orders.url, connect_timeout_ms=timeout_ms)

    async def _join(self) -> None:
        found = (await self._read_state())["database_id"]
        if self.database_id not in (None, found):
            raise StorageUnavailable(
                f"the database URL leads to database {found} now, and led to {self.database_id}"
                " before; restart the broker if that is intended",
                public="the database is another one now; try again",
                reason="other_database",
                is_suspicious=False,
            )
        await self._spool.open(found)
        await self._make_whole()
        self.database_id = found
        self.is_joined = True

    async def _keep_joining(self) -> None:
        while not self.is_joined:
            try:
                await self._join()
            except QueenError as error:
                logger.error(
                    "The broker has not joined the database completely; retrying: %s",
                    error,
                    extra={"event": "not_whole"},
                )
            except Exception:
                # Log a bug, and keep trying to join.
                logger.exception(
                    "Joining the database failed unexpectedly; retrying.",
                    extra={"event": "join_broke"},
                )
            else:
                logger.warning("The broker has joined the database.", extra={"event": "whole"})
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_S):
                    await self._never.wait()
