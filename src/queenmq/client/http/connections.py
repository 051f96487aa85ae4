"""Owns connections: HTTP/1.1 with keep-alive, one request at a time each, bounded in number.

httptools parses the answers. A full HTTP library would cost more than the rest of the client
(docs/adr/0015-client-http.md). Redirects, cookies, compression and proxies are not supported.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httptools

#: Seconds for opening a connection, even if the answer may take longer.
_CONNECT_S = 10.0
#: Seconds before the next address of a host is tried in parallel.
_NEXT_ADDRESS_S = 0.25
#: Seconds after which an idle connection is not reused: a middlebox may have
#: dropped it, and servers close idle ones after a minute or so.
_IDLE_S = 15.0
#: Far above what Queen sends. Another server at the address must not fill the memory.
_ANSWER_BYTES_MAX = 1 << 30


class NotConnected(Exception):
    """There was no connection to send the request over."""


class Broken(Exception):
    """The connection ended before the answer did, or the answer was not HTTP."""


class Reply(NamedTuple):
    """An answer, with only the headers that are used."""

    status: int
    body: bytes
    retry_after: str | None


class Address:
    """The address of a base URL."""

    def __init__(self, url: str, context: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        if not parts.hostname or parts.query or parts.fragment or parts.username:
            raise ValueError(
                f"URL {parts.scheme}://{parts.netloc.rpartition('@')[2]} must be "
                "scheme://host:port/path, without a user, query or fragment; "
                "pass a user in `headers`"
            )
        self.host = parts.hostname
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self.path = parts.path
        self.name = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode()
        self.ssl = context if parts.scheme == "https" else None
        self.idle: list[_Connection] = []


class _Connection(asyncio.Protocol):
    """One connection. The parser's callbacks build an answer."""

    def __init__(self, address: Address) -> None:
        self._idle = address.idle
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Reply] | None = None
        self._transport: asyncio.Transport | None = None
        self.is_open = True
        self.idle_since = 0.0
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.lost = self._loop.create_future()
        self._reset()

    def _reset(self) -> None:
        self._body: list[bytes] = []
        self._size = 0
        self._retry_after: str | None = None
        #: Whether an answer has begun, and whether it says where it ends.
        self._has_head = self._has_end = False

    async def exchange(self, request: bytes, deadline: float) -> Reply:
        """Send a request and return its answer. Any error ends the connection."""
        assert self._transport is not None
        answer: asyncio.Future[Reply] = self._loop.create_future()
        self._answer = answer
        self._deadline = deadline
        if self._timer is None or self._timer.when() > deadline:
            self._set_timer()
        try:
            self._transport.write(request)
            return await answer
        except BaseException:
            self.is_open = False
            raise
        finally:
            self._answer = None
            if not self.is_open:
                self.abort()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        """Check the deadline.

        One timer serves many requests, because a timer each would cost as much as parsing an
        answer.
        """
        self._timer = None
        if self._answer is None:
            return
        if self._loop.time() < self._deadline:
            self._set_timer()
        else:
            self._fail(TimeoutError("not in time"))

    def abort(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: Exception) -> None:
        self.is_open = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(Broken(f"the answer is not HTTP: {error}"))
        if self._answer is None:
            # An answer without a request: the server says why it is closing.
            self.abort()

    def eof_received(self) -> None:
        if self._has_head and not self._has_end:
            # An answer without a length ends with its connection.
            self.on_message_complete()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(Broken(str(error) if error else "the connection was closed"))
        if self in self._idle:
            self._idle.remove(self)
        if self._timer is not None:
            self._timer.cancel()
        self.lost.set_result(None)

    # Called by the parser.

    def on_message_begin(self) -> None:
        if self._answer is None or self._answer.done():
            self.is_open = False

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-length" or name == b"transfer-encoding":
            self._has_end = True
        elif name == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._size += len(body)
        if self._size > _ANSWER_BYTES_MAX:
            self._fail(Broken(f"the answer has more than {_ANSWER_BYTES_MAX} bytes"))

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        # A status below 200 only announces the answer.
        if status >= 200 and self._answer is not None and not self._answer.done():
            self.is_open = self.is_open and self._parser.should_keep_alive()
            self._answer.set_result(Reply(status, b"".join(self._body), self._retry_after))
        self._reset()


class Pool:
    """All connections of a client, in one event loop."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        #: Requests that may start now, and those that wait for others to end.
        self._free = limit
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._loop = asyncio.get_running_loop()
        self._connections: set[_Connection] = set()
        self._is_closed = False
        # Other loops, such as uvloop, try addresses in sequence and lack this argument.
        is_standard = isinstance(self._loop, asyncio.BaseEventLoop)
        self._racing: dict[str, Any] = (
            {"happy_eyeballs_delay": _NEXT_ADDRESS_S} if is_standard else {}
        )

    async def request(
        self, address: Address, method: str, path: str, headers: str, body: bytes | None,
        timeout: float,
    ) -> Reply:  # fmt: skip
        """Return one answer. Raises NotConnected, Broken or TimeoutError."""
        text = f"{method} {address.path}{path} HTTP/1.1\r\nHost: {address.name}\r\n{headers}"
        if body is not None:
            text += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        request = f"{text}\r\n".encode("latin-1") + (body or b"")
        now = self._loop.time()
        if self._free:
            self._free -= 1
        else:
            await self._wait_for_slot(timeout)
        try:
            connection = self._take_kept(address, now) or await self._open(address, now + timeout)
            reply = await connection.exchange(request, now + timeout)
            if connection.is_open:
                connection.idle_since = self._loop.time()
                address.idle.append(connection)
            return reply
        finally:
            self._give_slot()

    async def _wait_for_slot(self, timeout: float) -> None:
        waiter = self._loop.create_future()
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled():
                # The slot was granted at the same moment.
                self._give_slot()
            if isinstance(error, TimeoutError):
                raise NotConnected(
                    f"all {self._limit} connections are busy; raise the option `connections`"
                ) from None
            raise

    def _give_slot(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1

    def _take_kept(self, address: Address, now: float) -> _Connection | None:
        while address.idle:
            connection = address.idle.pop()
            if connection.is_open and now - connection.idle_since < _IDLE_S:
                return connection
            connection.abort()
        return None

    async def _open(self, address: Address, deadline: float) -> _Connection:
        try:
            async with asyncio.timeout_at(min(deadline, self._loop.time() + _CONNECT_S)):
                _, connection = await self._loop.create_connection(
                    lambda: _Connection(address),
                    address.host,
                    address.port,
                    ssl=address.ssl,
                    **self._racing,
                )
        except (OSError, TimeoutError) as error:
            raise NotConnected(str(error) or "the connection took too long") from error
        self._connections.add(connection)
        connection.lost.add_done_callback(lambda _: self._connections.discard(connection))
        if self._is_closed:
            connection.abort()
        return connection

    async def close(self) -> None:
        """Close all connections and wait until they have ended."""
        self._is_closed = True
        open_ones = list(self._connections)
        for connection in open_ones:
            connection.abort()
        await asyncio.gather(*(connection.lost for connection in open_ones))
