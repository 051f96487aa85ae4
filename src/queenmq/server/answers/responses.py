"""Request and answer helpers of the Starlette routes."""

from __future__ import annotations

from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire

T = TypeVar("T")


async def read_request(request: Request, wanted: type[T], *, default: T | None = None) -> T:
    """Return the decoded body. An empty body gives the default, if there is one."""
    body = await request.body()
    if not body and default is not None:
        return default
    return wire.decode(body, wanted)


def json_answer(content: Any, status: int = 200) -> Response:
    """Return a JSON answer that no browser or proxy keeps: the next user may not see it."""
    return Response(
        wire.encode(content),
        status_code=status,
        headers={"cache-control": "no-store"},
        media_type="application/json",
    )
