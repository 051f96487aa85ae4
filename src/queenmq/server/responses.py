"""Request and answer helpers of the Starlette routes; the hot routes have theirs in `asgi`."""

from __future__ import annotations

from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.server.asgi import read_body
from queenmq.settings import Settings

T = TypeVar("T")


async def read_request(
    request: Request, wanted: type[T], settings: Settings, *, default: T | None = None
) -> T:
    """The decoded body; an empty one is the default, where there is one."""
    body = await read_body(request.scope, request.receive, limit=settings.max_body_bytes)
    if not body and default is not None:
        return default
    return wire.decode(body, wanted)


def json_answer(content: Any, status: int = 200) -> Response:
    """A JSON answer."""
    return Response(wire.encode(content), status_code=status, media_type="application/json")
