"""One connection: the shell around the machine. Reads requests from bytes, writes answers."""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import cast

from queenmq.server.edge.answers import (
    CONTINUE,
    JSON_HEADERS,
    Headers,
    encode_answer,
    encode_json,
    encode_refusal,
    is_encoded,
)
from queenmq.server.edge.encodings import decode_body, decode_soon, encode_gzip
from queenmq.server.edge.exchange import Exchange
from queenmq.server.edge.intake import Intake
from queenmq.server.edge.machine import Event, State, step
from queenmq.server.edge.peers import has_peer_closed
from queenmq.server.edge.refusal import Refused
from queenmq.server.edge.shared import Edge

#: Bytes of later requests that are read ahead while one is in progress.
_AHEAD_BYTES_MAX = 64 * 1024
#: Compressing takes 10 ms per megabyte. From this size on a thread does it.
_THREAD_BYTES_MIN = 128 * 1024
#: By short names: in Python 3.11 a member of an enum is looked up by a function written in Python,
#: and every request passes a dozen of these.
_IDLE, _HEAD, _BODY, _DECODING = State.IDLE, State.HEAD, State.BODY, State.DECODING
_WORKING, _CLOSING, _CLOSED = State.WORKING, State.CLOSING, State.CLOSED
_BYTE, _COMPLETE, _ANSWERED = Event.BYTE, Event.COMPLETE, Event.ANSWERED
logger = logging.getLogger(__name__)


class Connection(asyncio.Protocol):
    """One client's connection. It belongs to one event loop."""

    __slots__ = (
        "__weakref__",
        "_edge",
        "_exchange",
        "_intake",
        "_transport",
        "_unread",
        "address",
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
        self._intake = Intake(edge.reader, edge.crowd)
        self._exchange: Exchange | None = None
        #: Answered exchanges whose client has not read the whole answer yet.
        self._unread: Exchange | None = None
        self.address = ""
        self.state = _IDLE
        self.since_s = edge.crowd.now_s
        self.unread_since_s: float | None = None
        self.unsent_seen = 0
        self.read_at_s = 0.0
        self.is_reading_paused = False
        self.is_new = True

    def _move(self, event: Event) -> None:
        self.state = step(self.state, event)
        self.since_s = self._edge.crowd.now_s

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # `pause_writing` then reports every answer that the client has not taken at once.
        self._transport.set_write_buffer_limits(high=0)
        peer = transport.get_extra_info("peername")
        self.address = peer[0] if peer else ""
        try:
            self._edge.crowd.add(self)
        except Refused as error:
            self._edge.crowd.see_off(self)
            self._move(Event.DISMISSED)
            self._say_last(error)

    def data_received(self, data: bytes) -> None:
        self._edge.crowd.received_bytes += len(data)
        state = self.state
        if state is _CLOSING:
            return
        if (
            state is _WORKING
            or state is _DECODING
            or self.unread_since_s is not None
            # `_go_on` is scheduled for the bytes before these.
            or (state is _IDLE and self._intake.ahead)
        ):
            self._keep(data)
            return
        try:
            if state is _BODY:
                self._read_body(data)
                return
            if state is _IDLE:
                # Empty lines before a request are to be ignored (RFC 9112, 2.2).
                data = data.lstrip(b"\r\n")
                if not data:
                    return
                self._move(_BYTE)
            if self._intake.ahead:
                self._intake.keep(data)
                self._read_head(self._intake.ahead)
            else:
                self._read_head(data)
        except Refused as error:
            self.refuse(error)

    def eof_received(self) -> bool | None:
        """Let the transport close our side when the client closes its own, as clients do."""
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._move(Event.LOST)
        self._intake.forget()
        self._edge.crowd.discard(self)
        for exchange in (self._exchange, self._unread):
            if exchange is not None:
                exchange.leave()
        self._exchange = self._unread = None

    def pause_writing(self) -> None:
        """Stop reading, because the client does not read its answers."""
        self.unread_since_s = self._edge.crowd.now_s
        self._pause_reading()

    def resume_writing(self) -> None:
        self.unread_since_s = None
        if self._unread is not None:
            self._unread.on_left = None
            self._unread = None
        self._go_on()

    # Reading.

    def _keep(self, data: bytes) -> None:
        self._intake.keep(data)
        is_beyond = self.state not in (_HEAD, _BODY)
        if is_beyond and len(self._intake.ahead) > _AHEAD_BYTES_MAX:
            self._pause_reading()

    def _read_head(self, data: bytes | bytearray) -> None:
        """Read a head from the start of these bytes, and continue with the rest."""
        intake = self._intake
        rest = intake.read_head(data)
        if rest is None:
            return
        head = intake.head
        assert head is not None
        length = head.length
        if 0 <= length <= len(rest):
            self._edge.crowd.check_room(length)
            self._complete(rest if length == len(rest) else rest[:length], rest[length:])
            return
        intake.begin_body(length)
        self._move(Event.FRAMED)
        if head.expects_continue and not rest:
            self._write(CONTINUE)
        if rest:
            self._read_body(rest)

    def _read_body(self, data: bytes) -> None:
        found = self._intake.read_body(data)
        if found is not None:
            self._complete(*found)

    def _complete(self, body: bytes, rest: bytes) -> None:
        """Continue with a request whose bytes are complete."""
        head = self._intake.head
        assert head is not None
        if not head.is_encoded:
            self._begin(body, rest)
            return
        decoded = decode_soon(head, body, self._edge.reader.limits.body_bytes_max)
        if decoded is not None:
            self._edge.crowd.check_room(len(decoded))
            self._begin(decoded, rest)
            return
        self._move(Event.ENCODED)
        self._intake.ahead = rest
        # It stays in memory until the thread is done, even if the client has left.
        self._edge.crowd.body_bytes += len(body)
        limit = self._edge.reader.limits.body_bytes_max
        decoding = asyncio.get_running_loop().run_in_executor(
            self._edge.threads, decode_body, head, body, limit
        )
        decoding.add_done_callback(functools.partial(self._finish_decoding, len(body)))

    def _finish_decoding(self, encoded_bytes: int, decoding: asyncio.Future[bytes]) -> None:
        """Hand over the request whose body a thread has decoded, or refuse it."""
        self._edge.crowd.body_bytes -= encoded_bytes
        if decoding.cancelled():
            # The process stops.
            self.abort()
            return
        error = decoding.exception()
        if self.state is not _DECODING:
            return
        try:
            if error is not None:
                raise error
            body = decoding.result()
            self._edge.crowd.check_room(len(body))
        except Refused as refusal:
            self.refuse(refusal)
        except Exception:
            logger.exception(
                "Decoding a request body failed unexpectedly.", extra={"event": "defect"}
            )
            self.abort()
        else:
            self._begin(body, self._intake.ahead)

    def _begin(self, body: bytes, rest: bytes | bytearray) -> None:
        """Hand a complete request to the application."""
        head = self._intake.head
        assert head is not None
        self._move(_COMPLETE)
        self._intake.ahead = rest
        self.is_new = False
        self._edge.crowd.body_bytes += len(body)
        exchange = self._exchange = Exchange(self, head, body, self._edge.on_error)
        try:
            self._edge.app(exchange)
        except Exception as error:
            exchange.fail(error)

    def _go_on(self) -> None:
        """Resume reading, starting with the bytes that were read ahead."""
        if self.unread_since_s is not None:
            return
        intake = self._intake
        if intake.ahead and self.state is _IDLE:
            data, intake.ahead = bytes(intake.ahead), b""
            # They were counted on arrival.
            self._edge.crowd.received_bytes -= len(data)
            self.data_received(data)
        if self.is_reading_paused and self._transport is not None and self._has_room():
            self.is_reading_paused = False
            self._transport.resume_reading()

    def _has_room(self) -> bool:
        """Return whether more may be read now: always what belongs to the request that is coming
        in.
        """
        if self.unread_since_s is not None or self.state in (_CLOSING, _CLOSED):
            return False
        return self.state in (_HEAD, _BODY) or len(self._intake.ahead) <= _AHEAD_BYTES_MAX

    def _pause_reading(self) -> None:
        if not self.is_reading_paused and self._transport is not None:
            self.is_reading_paused = True
            self._transport.pause_reading()

    # Writing.

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._edge.crowd.sent_bytes += len(data)
            self._transport.write(data)

    def send(self, exchange: Exchange, status: int, body: bytes, headers: Headers | None) -> None:
        """Write the answer to the current request, and continue with the next."""
        if exchange.held_bytes:
            # Only now, even if the client has left, because the body was in use until here.
            self._edge.crowd.body_bytes -= exchange.held_bytes
            exchange.held_bytes = 0
        if self._exchange is not exchange:
            # The client has left, or the request has been answered.
            return
        if self.is_reading_paused and self.has_hung_up:
            self.abort()
            return
        is_worth_it = exchange.head.accepts_gzip and len(body) >= self._edge.gzip_bytes_min
        if is_worth_it and not is_encoded(headers):
            self._send_compressed(exchange, status, body, headers)
        else:
            self._finish(exchange, status, body, headers)

    def _finish(
        self, exchange: Exchange, status: int, body: bytes, headers: Headers | None
    ) -> None:
        self._edge.on_answer(exchange, status)
        head = exchange.head
        is_last = not head.is_keep_alive or self._edge.crowd.is_stopping
        if head.is_plain and headers is None and not is_last:
            answer = encode_json(status, body)
        else:
            answer = encode_answer(
                status,
                body,
                (*(JSON_HEADERS if headers is None else headers), *head.extra),
                is_last=is_last,
                is_head=head.method == "HEAD",
            )
        self._exchange = None
        self._intake.head = None
        self._write(answer)
        if exchange.on_left is not None:
            self._watch_reading(exchange)
        if is_last:
            self._move(Event.ANSWERED_LAST)
            if self._transport is not None:
                self._transport.close()
            return
        self._move(_ANSWERED)
        if self._intake.ahead or self.is_reading_paused:
            # Not at once, or pipelined requests with immediate answers would nest in the stack.
            asyncio.get_running_loop().call_soon(self._go_on)

    def _watch_reading(self, exchange: Exchange) -> None:
        """Remember an exchange whose answer the client has not read yet. Forget all others."""
        transport = self._transport
        if self.unread_since_s is not None or transport is None or transport.is_closing():
            self._unread = exchange
        else:
            exchange.on_left = None

    def _send_compressed(
        self, exchange: Exchange, status: int, body: bytes, headers: Headers | None
    ) -> None:
        given = JSON_HEADERS if headers is None else tuple(headers)
        encoded = (*given, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))

        def send(compressed: bytes) -> None:
            if self._exchange is exchange:
                self._finish(exchange, status, compressed, encoded)

        if len(body) < _THREAD_BYTES_MIN:
            send(encode_gzip(body))
        else:
            loop = asyncio.get_running_loop()
            exchange.follow(loop.run_in_executor(self._edge.threads, encode_gzip, body), send)

    def refuse(self, error: Refused) -> None:
        """Answer a request that the edge does not accept, and end the connection."""
        if self.state is _IDLE:
            self._move(_BYTE)
        self._move(Event.REFUSED)
        self._say_last(error)

    def _say_last(self, error: Refused) -> None:
        """Write the refusal, then keep reading for a while. Closing now could discard it unread."""
        self._edge.on_refusal(error)
        self._intake.forget()
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
        if self.state in (_IDLE, _HEAD, _BODY):
            self._move(Event.DISMISSED)
            self._intake.forget()
            if self._transport is not None:
                self._transport.close()

    @property
    def scheme(self) -> str:
        """Return the scheme of requests: http or https."""
        return self._edge.scheme

    @property
    def body_bytes(self) -> int:
        """Return how much of a body has arrived."""
        return self._intake.body_bytes

    @property
    def unsent_bytes(self) -> int:
        """Return how many bytes of answers the client has not read yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def has_hung_up(self) -> bool:
        """Return whether the client has closed its side behind bytes that are not read yet."""
        if not self.is_reading_paused or self._transport is None:
            return False
        return has_peer_closed(self._transport)

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()
