"""One request and the way back to its client. This is all that handlers see of the edge."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from queenmq.auth.identity import NOBODY, Identity
from queenmq.clock import now_ms
from queenmq.server.edge.answers import Headers
from queenmq.server.edge.head import Head

T = TypeVar("T")

_GIVEN_UP = (
    b'{"error":"The broker stops and gave up the request. Send it again.","code":"stopping"}'
)


class Sender(Protocol):
    """The interface of a connection for an exchange."""

    address: str

    #: http or https.
    @property
    def scheme(self) -> str: ...

    def send(self, exchange: Exchange, status: int, body: bytes, headers: Headers | None) -> None:
        """Send the answer. `None` for headers is a plain JSON answer."""


class Exchange:
    """A request that is answered once, now or later, through `answer` or `fail`.

    An answer for a client that has left is dropped. `on_left` is called once if the client leaves
    before it can have the whole answer: before there is one, while it is compressed, or while part
    of it is unread.
    """

    __slots__ = (
        "_on_error",
        "_sender",
        "began_ms",
        "body",
        "has_left",
        "head",
        "held_bytes",
        "identity",
        "on_left",
        "route",
        "task",
    )

    def __init__(
        self,
        sender: Sender,
        head: Head,
        body: bytes,
        on_error: Callable[[Exchange, BaseException], None],
    ) -> None:
        self._sender = sender
        self._on_error = on_error
        self.head = head
        self.body = body
        #: When the request was complete.
        self.began_ms = now_ms()
        #: The meter of its route, opaque here. None while unknown.
        self.route: Any = None
        #: The caller, set by the application.
        self.identity: Identity = NOBODY
        #: Its share of the bodies in memory, until it is answered.
        self.held_bytes = len(body)
        self.has_left = False
        self.on_left: Callable[[], None] | None = None
        #: The task that works on it, if there is one.
        self.task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Return the client's address."""
        return self._sender.address

    @property
    def scheme(self) -> str:
        """Return the scheme of the request: http or https."""
        return self._sender.scheme

    def answer(self, status: int, body: bytes = b"", headers: Headers | None = None) -> None:
        """Send the answer, as JSON unless headers are given."""
        self._sender.send(self, status, body, headers)

    def fail(self, error: BaseException) -> None:
        """Send the answer that belongs to an error."""
        self._on_error(self, error)

    def follow(self, future: asyncio.Future[T], finish: Callable[[T], None]) -> None:
        """Call `finish` with the result of the future, or answer with its error."""
        future.add_done_callback(functools.partial(self.complete, finish))

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task for the request, for handlers that wait more than once."""
        self.task = asyncio.get_running_loop().create_task(work)
        self.task.add_done_callback(functools.partial(self.complete, _ignore))

    def leave(self) -> None:
        """Note that the client is gone, and notify the handler."""
        self.has_left = True
        on_left, self.on_left = self.on_left, None
        if on_left is not None:
            on_left()

    def complete(self, finish: Callable[[Any], None], future: asyncio.Future[Any]) -> None:
        """Call `finish` with the result of a finished future, or answer with its error.

        The request is freed here, and not by a pause of the garbage collector later: the task holds
        its error, whose traceback holds the request.
        """
        self.task = None
        if future.cancelled():
            self.answer(503, _GIVEN_UP)
        elif (error := future.exception()) is not None:
            self.fail(error)
        else:
            try:
                finish(future.result())
            except Exception as failure:
                self.fail(failure)


def _ignore(_: None) -> None:
    """Collect the result of a task that has answered by itself."""
