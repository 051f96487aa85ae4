"""Brings a broker and its database together: at the start, or later when the database is there.

Without the database a broker keeps pushes on disk and refuses the rest. Once the database answers,
the schema is brought up to date, the spool of that database is opened, and the broker serves
everything.
"""

from __future__ import annotations

import asyncio
import logging

from queenmq.engine.lifecycle import Health, ServiceGroup
from queenmq.engine.maintenance import Maintenance
from queenmq.errors import AccessRefused, QueenError, StorageUnavailable
from queenmq.server.orders import BrokerOrders
from queenmq.storage.connection.database import Database
from queenmq.storage.connection.outage import OutageWatch
from queenmq.storage.schema.migrator import migrate
from queenmq.storage.spool.pair import SpoolPair
from queenmq.storage.stores.operations import PostgresOperationStore

logger = logging.getLogger(__name__)

#: Between two tries when the database answers, but something else is in the way.
_RETRY_S = 1.0


class Membership:
    """The state of a broker towards its database: joined or not, and which one it is."""

    def __init__(self, watch: OutageWatch, database_id: str | None) -> None:
        self._watch = watch
        self.database_id = database_id
        self.is_joined = False

    def is_down(self) -> bool:
        """Return whether the broker has to do without the database now."""
        return self._watch.is_down or not self.is_joined

    def note_joined(self, database_id: str) -> None:
        self.database_id = database_id
        self.is_joined = True


class Joining:
    """One broker's way to its database.

    It starts the services that need the database once that is there, and stops them with itself.
    """

    name = "joining"

    def __init__(
        self,
        orders: BrokerOrders,
        database: Database,
        membership: Membership,
        *,
        spool: SpoolPair,
        state: PostgresOperationStore,
        maintenance: Maintenance,
        joined: ServiceGroup,
    ) -> None:
        self._orders = orders
        self._database = database
        self._membership = membership
        self._spool = spool
        self._state = state
        self._maintenance = maintenance
        self._joined = joined
        self._task: asyncio.Task[None] | None = None
        self._is_started = False

    async def start(self) -> None:
        """Join now, or make ready for later. Raises what a later try cannot put right."""
        if self._is_started:
            return
        try:
            if (missing := self._orders.missing) is not None:
                raise StorageUnavailable(missing.text, public=missing.public, reason=missing.reason)
            await self._join()
        except StorageUnavailable as error:
            if isinstance(error, AccessRefused) or not self._orders.may_wait:
                raise
            await self._spool.open(self._membership.database_id)
            self._database.await_server(error, self._migrate)
        self._is_started = True

    def wake(self) -> None:
        """Join again now, because the database is back."""
        if not self._membership.is_joined and self._task is None:
            self._task = asyncio.create_task(self._keep_joining(), name=self.name)

    async def stop(self) -> None:
        """Stop trying, and stop what needs the database."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._joined.stop()
        self._is_started = False

    def health(self) -> Health:
        if not self._is_started:
            return Health.STOPPED
        if self._task is not None and self._task.done() and not self._membership.is_joined:
            return Health.DEAD
        return Health.RUNNING

    async def _migrate(self) -> None:
        timeout_ms = self._orders.settings.db_connect_timeout_ms
        await migrate(self._orders.url, connect_timeout_ms=timeout_ms)

    async def _join(self) -> None:
        found = (await self._state.read_state())["database_id"]
        before = self._membership.database_id
        if before not in (None, found):
            raise StorageUnavailable(
                f"the database URL leads to database {found} now, and led to {before}"
                " before; restart the broker if that is meant",
                public="the database is another one now; try again",
                reason="other_database",
                is_suspicious=False,
            )
        await self._spool.open(found)
        await self._maintenance.refresh()
        await self._joined.start()
        self._membership.note_joined(found)

    async def _keep_joining(self) -> None:
        while not self._membership.is_joined:
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
            await asyncio.sleep(_RETRY_S)
