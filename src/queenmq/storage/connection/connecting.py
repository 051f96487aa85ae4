"""Opens every connection to PostgreSQL, to the right one of several hosts.

Each host has its own time limit, and all are asked at once, so one that hangs does not delay the
others. The connector remembers the chosen host and the newest timeline it has seen. Once another
server of the cluster is promoted, connections to the old one are closed and new ones are refused,
even if it comes back and still accepts writes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from queenmq.clock import now_ms
from queenmq.errors import StorageUnavailable
from queenmq.storage.connection.faults import explain_failures
from queenmq.storage.connection.hosts import Host, parse_url
from queenmq.storage.connection.server_choice import (
    Server,
    ServerState,
    decide,
    find_refusal,
    has_usable,
    is_newer,
    is_outdated,
    is_usable,
    make_no_primary,
    merge_refusals,
)
from queenmq.storage.sql_files import load_queries

logger = logging.getLogger(__name__)

#: How long a host may take to report its state when all of them are asked.
_ASK_S = 2.0
#: An unusable host is asked again after this time, while others are still waited for.
_ASK_AGAIN_S = 0.25
#: How often to try when the chosen host changes in the meantime.
_TRIES = 5


class ServerConnection(asyncpg.Connection):
    """A connection that knows its server.

    It is reused as it is, because no call leaves session state behind.
    """

    server: Server

    def get_reset_query(self) -> str:
        return ""


class Connector:
    """Opens connections to one database. Belongs to one event loop."""

    def __init__(self, url: str, *, timeout_ms: int) -> None:
        self._url = parse_url(url)
        self._limit_s = timeout_ms / 1000
        self._chosen: Host | None = None
        self._newest: ServerState | None = None
        self._open: set[ServerConnection] = set()
        #: Connections whose server is being asked for its state.
        self._new: set[ServerConnection] = set()
        #: Running attempts.
        self._opening: dict[asyncio.Task[ServerConnection], Host] = {}
        self._finding: asyncio.Task[Server] | None = None

    @property
    def has_choice(self) -> bool:
        return len(self._url.hosts) > 1

    async def connect(self, **options: Any) -> ServerConnection:
        """Open a connection to a server that the URL asks for. Raises StorageUnavailable."""
        for _ in range(_TRIES):
            host = await self._find_host()
            try:
                connection = await self._open_at(host, options)
            except StorageUnavailable as error:
                if self._chosen == host and error.is_suspicious:
                    # The next caller asks all hosts again.
                    self._chosen = None
                raise
            if connection is None:
                continue
            if self._chosen not in (None, host):
                # Another one was chosen meanwhile.
                connection.terminate()
                continue
            why_not = find_refusal(self._url, connection.server, self._newest)
            if why_not is None:
                self._adopt(connection.server)
                self._keep(connection)
                return connection
            connection.terminate()
            self._chosen = None
            if not self.has_choice:
                raise why_not
        raise make_no_primary("the primary changes again and again")

    async def find(self) -> Server:
        """Ask all hosts, choose one, and use it from now on."""
        if self._finding is None:
            self._finding = asyncio.create_task(self._find(), name="find-primary")
            self._finding.add_done_callback(self._found)
        return await asyncio.shield(self._finding)

    def _found(self, task: asyncio.Task[Server]) -> None:
        self._finding = None
        if not task.cancelled():
            # Waiting callers get the result as well.
            task.exception()

    async def follow_primary(self) -> None:
        """Ask the other hosts whether one of them has been promoted, and follow if so."""
        others = [host for host in self._url.hosts if host != self._chosen]
        if self._chosen is None or not self.has_choice:
            return
        answers = await asyncio.gather(*map(self._ask, others))
        for host, answer in zip(others, answers, strict=True):
            if (
                isinstance(answer, ServerState)
                and is_usable(answer, self._url.target)
                and self._newest is not None
                and is_newer(answer, self._newest)
            ):
                self._adopt(Server(host, answer))

    def drop_all(self) -> None:
        """Close all connections: the database is down, and another server may come back."""
        for connection in (*self._open, *self._new):
            connection.terminate()

    async def close(self) -> None:
        """Stop looking for a server. The callers close their connections."""
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.gather(self._finding, return_exceptions=True)

    async def _find_host(self) -> Host:
        if not self.has_choice:
            return self._url.hosts[0]
        return self._chosen or (await self.find()).host

    async def _find(self) -> Server:
        answers: dict[Host, ServerState | StorageUnavailable] = {}
        news = asyncio.Event()
        asking = [
            asyncio.create_task(self._keep_asking(host, answers, news)) for host in self._url.hosts
        ]
        usable_ms: float | None = None
        try:
            while True:
                waited_ms = 0.0 if usable_ms is None else now_ms() - usable_ms
                server = decide(self._url, answers, self._newest, waited_ms=waited_ms)
                if server is not None:
                    self._adopt(server)
                    return server
                if has_usable(self._url, answers, self._newest):
                    usable_ms = usable_ms or now_ms()
                elif len(answers) == len(asking):
                    raise merge_refusals(self._url, answers, self._newest)
                await _wait_for(news, _ASK_AGAIN_S)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def _keep_asking(
        self,
        host: Host,
        answers: dict[Host, ServerState | StorageUnavailable],
        news: asyncio.Event,
    ) -> None:
        while True:
            answers[host] = await self._ask(host)
            news.set()
            await asyncio.sleep(_ASK_AGAIN_S)

    async def _ask(self, host: Host) -> ServerState | StorageUnavailable:
        try:
            connection = await self._attempt(
                host, min(self._limit_s, _ASK_S), {"statement_cache_size": 0}
            )
        except StorageUnavailable as error:
            return error
        connection.terminate()
        return connection.server.state

    async def _open_at(self, host: Host, options: Mapping[str, Any]) -> ServerConnection | None:
        """Return a connection, or None when another host was chosen meanwhile."""
        task = asyncio.create_task(self._attempt(host, self._limit_s, options))
        self._opening[task] = host
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            task.add_done_callback(_discard)
            raise
        finally:
            del self._opening[task]
        return None if task.cancelled() else task.result()

    async def _attempt(
        self, host: Host, limit_s: float, options: Mapping[str, Any]
    ) -> ServerConnection:
        place = {} if host.name is None else {"host": host.name, "port": host.port}
        arguments: dict[str, Any] = {"connection_class": ServerConnection, **options, **place}
        with explain_failures(self._url, host):
            async with asyncio.timeout(limit_s):
                connection: ServerConnection = await asyncpg.connect(
                    self._url.text,
                    **arguments,
                    timeout=limit_s,
                    target_session_attrs=SessionAttribute.any,
                )
                self._new.add(connection)
                try:
                    connection.server = Server(host, await _read_state(connection))
                    _keep_alive(connection)
                except BaseException:
                    connection.terminate()
                    raise
                finally:
                    self._new.discard(connection)
        return connection

    def _keep(self, connection: ServerConnection) -> None:
        self._open.add(connection)
        connection.add_termination_listener(lambda _: self._open.discard(connection))

    def _adopt(self, server: Server) -> None:
        """Use this server from now on, and no other."""
        host, state = server
        is_changed = self._chosen is not None and self._chosen != host
        is_promoted = self._newest is not None and is_newer(state, self._newest)
        self._chosen = host
        if state.timeline:
            self._newest = state
        if is_changed or is_promoted:
            facts = {"event": "primary_changed", "host": str(host), "timeline": state.timeline}
            logger.warning("The primary is now %s.", host, extra=facts)
        for connection in list(self._open):
            it = connection.server
            if it.host != host or is_outdated(it.state, self._newest):
                connection.terminate()
        for task, to in self._opening.items():
            if to != host:
                task.cancel()


@asynccontextmanager
async def open_connection(url: str, *, timeout_ms: int = 5_000) -> AsyncIterator[ServerConnection]:
    """Yield a connection for a block of work."""
    connection = await Connector(url, timeout_ms=timeout_ms).connect(statement_cache_size=0)
    try:
        yield connection
    finally:
        await connection.close()


async def _wait_for(news: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await news.wait()
    except TimeoutError:
        pass
    news.clear()


async def _read_state(connection: ServerConnection) -> ServerState:
    sql = load_queries("schema/connections")
    try:
        row = await _fetch_row(connection, sql["server_state"])
    except (asyncpg.InsufficientPrivilegeError, asyncpg.FeatureNotSupportedError):
        row = await _fetch_row(connection, sql["server_role"])
    return ServerState(
        row["system"], int(row["timeline"], 16), row["is_standby"], row["is_read_only"]
    )


async def _fetch_row(connection: ServerConnection, query: str) -> asyncpg.Record:
    # In a transaction, or a pooler may send the two halves to different servers.
    async with connection.transaction():
        row = await connection.fetchrow(query)
    assert row is not None
    return row


def _discard(task: asyncio.Task[ServerConnection]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().terminate()


def _keep_alive(connection: ServerConnection) -> None:
    """Send keep-alives, so that a vanished server is noticed even on an idle connection."""
    # The driver offers no public way to its socket.
    transport = getattr(connection, "_transport", None)
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in _keep_alive_options():
        sock.setsockopt(socket.IPPROTO_TCP, option, seconds)


def _keep_alive_options() -> Sequence[tuple[int, int]]:
    names = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
    return [(getattr(socket, name), value) for name, value in names if hasattr(socket, name)]
