"""One connection: the shell around the machine. Reads requests from bytes, writes answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from queenmq.server.edge.answers import (
    CONTINUE,
    JSON,
    Headers,
    encode_answer,
    encode_json,
    encode_refusal,
)
from queenmq.server.edge.chunked import ChunkedBody
from queenmq.server.edge.crowd import Crowd
from queenmq.server.edge.encodings import decode_body, encode_gzip
from queenmq.server.edge.exchange import Exchange
from queenmq.server.edge.head import CHUNKED, Head, HeadReader
from queenmq.server.edge.machine import Event, State, step
from queenmq.server.edge.refusal import Refused

#: Bytes of later requests that are read ahead while one is worked on.
_AHEAD_BYTES_MAX = 64 * 1024
#: Compressing takes 10 ms a megabyte; from this size on a thread does it.
_THREAD_BYTES_MIN = 128 * 1024
_END_OF_HEAD = b"\r\n\r\n"
_JSON_HEADERS = ((b"content-type", JSON),)


@dataclass(frozen=True, slots=True)
class Edge:
    """What all connections share."""

    crowd: Crowd
    reader: HeadReader
    #: Gets every request.
    app: Callable[[Exchange], None]
    #: Answers a request whose handler raised an error.
    on_error: Callable[[Exchange, BaseException], None]
    #: Answers below this size are not compressed.
    gzip_bytes_min: int


class Connection(asyncio.Protocol):
    """Belongs to one event loop; a new one for each client."""

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_body",
        "_edge",
        "_exchange",
        "_head",
        "_searched",
        "_transport",
        "address",
        "body_bytes",
        "is_new",
        "is_reading_paused",
        "read_at_s",
        "since_s",
        "state",
        "unread_since_s",
        "unsent_seen",
    )  # fmt: skip

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._transport: asyncio.Transport | None = None
        #: Bytes that were read and belong to no complete part yet.
        self._ahead: bytes | bytearray = b""
        self._searched = 0
        self._head: Head | None = None
        self._body: bytearray | ChunkedBody | None = None
        self._exchange: Exchange | None = None
        self.address = ""
        self.state = State.IDLE
        self.since_s = edge.crowd.now_s
        self.unread_since_s: float | None = None
        self.unsent_seen = 0
        self.read_at_s = 0.0
        self.is_reading_paused = False
        self.is_new = True
        self.body_bytes = 0

    def _move(self, event: Event) -> None:
        self.state = step(self.state, event)
        self.since_s = self._edge.crowd.now_s

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if peer else ""
        try:
            self._edge.crowd.add(self)
        except Refused as error:
            self._edge.crowd.see_off(self)
            self._move(Event.DISMISSED)
            self._say_last(error)

    def data_received(self, data: bytes) -> None:
        state = self.state
        if state is State.CLOSING:
            return
        if (
            state is State.WORKING
            or self.unread_since_s is not None
            # `_go_on` is on its way with what came before these.
            or (state is State.IDLE and self._ahead)
        ):
            self._keep(data)
            return
        try:
            if state is State.BODY:
                self._read_body(data)
                return
            if state is State.IDLE:
                # Empty lines before a request are to be ignored (RFC 9112, 2.2).
                data = data.lstrip(b"\r\n")
                if not data:
                    return
                self._move(Event.BYTE)
            if self._ahead:
                self._keep(data)
                data = self._ahead  # type: ignore[assignment]
            self._read_head(data)
        except Refused as error:
            self.refuse(error)

    def eof_received(self) -> bool | None:
        """The client has closed its side, which is how clients leave. The transport closes ours."""
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._move(Event.LOST)
        self._forget_body()
        self._ahead = b""
        self._edge.crowd.discard(self)
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.leave()

    def pause_writing(self) -> None:
        """The client does not read its answers, so nothing more of it is read."""
        self.unread_since_s = self._edge.crowd.now_s
        self._pause_reading()

    def resume_writing(self) -> None:
        self.unread_since_s = None
        self._go_on()

    # Reading.

    def _keep(self, data: bytes) -> None:
        if not isinstance(self._ahead, bytearray):
            self._ahead = bytearray(self._ahead)
        self._ahead += data
        if self.state in (State.WORKING, State.IDLE) and len(self._ahead) > _AHEAD_BYTES_MAX:
            self._pause_reading()

    def _read_head(self, data: bytes) -> None:
        """Read a head from the beginning of these bytes, and go on with what follows it."""
        end = data.find(_END_OF_HEAD, self._searched)
        if end < 0:
            self._check_unfinished(data)
            return
        end += 4
        self._searched = 0
        self._ahead = b""
        if end > self._edge.reader.limits.bytes_max:
            raise self._too_large_head()
        head = self._edge.reader.read(bytes(data[:end]))
        self._head = head
        rest = bytes(data[end:]) if end < len(data) else b""
        length = head.length
        if 0 <= length <= len(rest):
            self._edge.crowd.check_room(length)
            self._complete(rest if length == len(rest) else rest[:length], rest[length:])
            return
        self._edge.crowd.check_room(max(length, 0))
        self._body = (
            ChunkedBody(self._edge.reader.limits.body_bytes_max)
            if length == CHUNKED
            else bytearray()
        )
        self._move(Event.FRAMED)
        if head.expects_continue and not rest:
            self._write(CONTINUE)
        if rest:
            self._read_body(rest)

    def _check_unfinished(self, data: bytes) -> None:
        self._searched = max(0, len(data) - 3)
        self._ahead = data
        if len(data) > self._edge.reader.limits.bytes_max:
            raise self._too_large_head()
        first_line, found, _ = bytes(data[:9_000]).partition(b"\n")
        if found and not first_line.rstrip(b"\r").endswith((b"HTTP/1.1", b"HTTP/1.0")):
            raise Refused(400, "The request line does not end with an HTTP version. Use HTTP/1.1.")
        if not 0x41 <= data[0] <= 0x5A:
            # Among others a TLS hello: it will never be a head.
            raise Refused(400, "The request does not start with an HTTP method.")
        if b"\n\n" in data:
            raise Refused(400, "The head has lines that end without CR. End lines with CR LF.")

    def _too_large_head(self) -> Refused:
        limit = self._edge.reader.limits.bytes_max
        return Refused(431, f"The head has more than {limit} bytes. Shorten URL and headers.")

    def _read_body(self, data: bytes) -> None:
        head, body = self._head, self._body
        assert head is not None and body is not None
        if isinstance(body, ChunkedBody):
            rest = body.feed(bytes(self._ahead) + data if self._ahead else data)
            held = body.held
            is_complete = body.is_complete
            self._ahead = rest
        else:
            missing = head.length - len(body)
            body += data[:missing]
            rest = data[missing:]
            held = len(body)
            is_complete = held == head.length
        self._edge.crowd.check_room(held - self.body_bytes)
        self._edge.crowd.body_bytes += held - self.body_bytes
        self.body_bytes = held
        if is_complete:
            self._ahead = b""
            whole = body.join() if isinstance(body, ChunkedBody) else bytes(body)
            self._forget_body()
            self._complete(whole, rest)

    def _forget_body(self) -> None:
        self._edge.crowd.body_bytes -= self.body_bytes
        self.body_bytes = 0
        self._body = None

    def _complete(self, body: bytes, rest: bytes) -> None:
        """Hand a complete request to the application."""
        head = self._head
        assert head is not None
        if head.is_encoded:
            body = decode_body(head, body, self._edge.reader.limits.body_bytes_max)
            self._edge.crowd.check_room(len(body))
        self._move(Event.COMPLETE)
        self._ahead = rest
        self.is_new = False
        self.body_bytes = len(body)
        self._edge.crowd.body_bytes += len(body)
        exchange = self._exchange = Exchange(self, head, body, self._edge.on_error)
        try:
            self._edge.app(exchange)
        except Exception as error:
            exchange.fail(error)

    def _go_on(self) -> None:
        """Read again, and begin with what was read ahead."""
        if self.unread_since_s is not None:
            return
        if self._ahead and self.state is State.IDLE:
            data, self._ahead = bytes(self._ahead), b""
            self.data_received(data)
        if self.is_reading_paused and self._transport is not None and self._has_room():
            self.is_reading_paused = False
            self._transport.resume_reading()

    def _has_room(self) -> bool:
        """Whether more may be read now: always what belongs to the request that is coming in."""
        if self.unread_since_s is not None or self.state in (State.CLOSING, State.CLOSED):
            return False
        return self.state in (State.HEAD, State.BODY) or len(self._ahead) <= _AHEAD_BYTES_MAX

    def _pause_reading(self) -> None:
        if not self.is_reading_paused and self._transport is not None:
            self.is_reading_paused = True
            self._transport.pause_reading()

    # Writing.

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def send(self, exchange: Exchange, status: int, body: bytes, headers: Headers | None) -> None:
        """Write the answer to the request under way, and turn to the next."""
        if self._exchange is not exchange:
            # The client has left, or the request was answered already.
            return
        head = exchange.head
        if head.accepts_gzip and len(body) >= self._edge.gzip_bytes_min:
            self._send_compressed(exchange, status, body, headers)
            return
        is_last = not head.is_keep_alive or self._edge.crowd.is_stopping
        if head.is_plain and headers is None and not is_last:
            answer = encode_json(status, body)
        else:
            answer = encode_answer(
                status,
                body,
                (*(_JSON_HEADERS if headers is None else headers), *head.extra),
                is_last=is_last,
                is_head=head.method == "HEAD",
            )
        self._finish(answer, is_last=is_last)

    def _finish(self, answer: bytes, *, is_last: bool) -> None:
        self._exchange = None
        self._forget_body()
        self._head = None
        self._write(answer)
        if is_last:
            self._move(Event.ANSWERED_LAST)
            if self._transport is not None:
                self._transport.close()
            return
        self._move(Event.ANSWERED)
        if self._ahead or self.is_reading_paused:
            # Not at once: answers that come at once would make each request a level of the stack.
            asyncio.get_running_loop().call_soon(self._go_on)

    def _send_compressed(
        self, exchange: Exchange, status: int, body: bytes, headers: Headers | None
    ) -> None:
        given = _JSON_HEADERS if headers is None else tuple(headers)
        encoding = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))

        def send(compressed: bytes) -> None:
            if self._exchange is not exchange:
                return
            head = exchange.head
            is_last = not head.is_keep_alive or self._edge.crowd.is_stopping
            answer = encode_answer(
                status,
                compressed,
                (*given, *encoding, *head.extra),
                is_last=is_last,
                is_head=head.method == "HEAD",
            )
            self._finish(answer, is_last=is_last)

        if len(body) < _THREAD_BYTES_MIN:
            send(encode_gzip(body))
        else:
            loop = asyncio.get_running_loop()
            exchange.follow(loop.run_in_executor(None, encode_gzip, body), send)

    def refuse(self, error: Refused) -> None:
        """Answer a request that the edge does not accept, and end the connection."""
        if self.state is State.IDLE:
            self._move(Event.BYTE)
        self._move(Event.REFUSED)
        self._say_last(error)

    def _say_last(self, error: Refused) -> None:
        """Write the refusal, then read on for a while: closing now could destroy it unread."""
        self._forget_body()
        self._ahead = b""
        self._write(encode_refusal(error))
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self.is_reading_paused:
            self.is_reading_paused = False
            transport.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()
        else:
            transport.close()

    def dismiss(self) -> None:
        """End a connection that has no request under way."""
        if self.state in (State.IDLE, State.HEAD, State.BODY):
            self._move(Event.DISMISSED)
            self._forget_body()
            if self._transport is not None:
                self._transport.close()

    @property
    def unsent_bytes(self) -> int:
        """How much of its answers the client has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()
