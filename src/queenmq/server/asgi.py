"""The few things bare ASGI handlers need: read a body, send an answer. No framework on the hot
path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from queenmq import wire
from queenmq.errors import QueenError, RequestTooLarge
from queenmq.server.error_responses import body_of, retry_after_s, status_of

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

#: Key of a request's scope: what to call when the caller hangs up before the answer.
ON_LOST = "queen.on_lost"

_JSON: Header = (b"content-type", b"application/json")


class ClientDisconnected(Exception):
    """The caller closed the connection before its request was complete."""


async def read_body(scope: Scope, receive: Receive, *, limit: int) -> bytes:
    """The whole body; RequestTooLarge before more than the limit is held in memory."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > limit:
            raise _too_large(limit)
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        if len(body) > limit:
            raise _too_large(limit)
        return body
    parts, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    return b"".join(parts)


def has_left(receive: Receive) -> bool:
    """Whether the caller is known to have hung up; a look, where `receive` would wait."""
    # The server's own note; ASGI offers it only to those who wait for it.
    return bool(getattr(getattr(receive, "__self__", None), "disconnected", False))


def _too_large(limit: int) -> RequestTooLarge:
    return RequestTooLarge(f"the body is larger than {limit} bytes; send fewer items per request")


async def send_json(send: Send, status: int, body: bytes, headers: tuple[Header, ...] = ()) -> None:
    """Answer with a JSON body."""
    length = (b"content-length", str(len(body)).encode())
    head = [_JSON, length, *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def send_empty(send: Send, headers: tuple[Header, ...] = ()) -> None:
    """Answer 204."""
    await send({"type": "http.response.start", "status": 204, "headers": list(headers)})
    await send({"type": "http.response.body", "body": b""})


async def send_error(send: Send, error: QueenError) -> None:
    """Answer with the status and sentence of an error."""
    seconds = retry_after_s(error)
    headers = () if seconds is None else ((b"retry-after", str(seconds).encode()),)
    await send_json(send, status_of(error), wire.encode(body_of(error)), headers)
