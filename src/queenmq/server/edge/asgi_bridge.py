"""Runs an ASGI application for one exchange. All routes that are not hot use it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

from queenmq.server.edge.exchange import Exchange

Message = MutableMapping[str, Any]
AsgiApp = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[Message]],
        Callable[[Message], Awaitable[None]],
    ],
    Awaitable[None],
]

#: Headers of every page: it runs only our scripts, in no frame, and does not reveal its address.
_HTML_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none';"
        b" form-action 'self'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class _Conversation:
    """The two channels of ASGI. The body is complete, and an answer is sent as a whole."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._is_body_given = False
        self._status = 500
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []

    async def receive(self) -> Message:
        if self._is_body_given:
            return {"type": "http.disconnect"}
        self._is_body_given = True
        return {"type": "http.request", "body": self._exchange.body, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            # The edge counts the length itself.
            self._headers = [
                (name, value)
                for name, value in message.get("headers", ())
                if name.lower() != b"content-length"
            ]
            if any(
                name.lower() == b"content-type" and value.startswith(b"text/html")
                for name, value in self._headers
            ):
                given = {name.lower() for name, _ in self._headers}
                self._headers += [one for one in _HTML_HEADERS if one[0] not in given]
        else:
            self._parts.append(message.get("body", b""))
            if not message.get("more_body"):
                self._exchange.answer(self._status, b"".join(self._parts), self._headers)


async def run_asgi(app: AsgiApp, exchange: Exchange) -> None:
    """Let the application answer the exchange, which it finds in its scope."""
    head = exchange.head
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": head.version,
        "method": head.method,
        "scheme": exchange.scheme,
        "path": unquote_to_bytes(head.path).decode("utf-8", "surrogateescape"),
        "raw_path": head.path,
        "query_string": head.query,
        "root_path": "",
        "headers": list(head.headers),
        "client": (exchange.address, 0),
        #: For code that has to say more about a request than ASGI can.
        "exchange": exchange,
        "server": None,
    }
    conversation = _Conversation(exchange)
    await app(scope, conversation.receive, conversation.send)
