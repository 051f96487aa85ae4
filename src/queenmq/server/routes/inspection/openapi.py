"""GET /openapi.json: the whole API for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from queenmq import __version__, wire
from queenmq.server.routing.openapi import build_document
from queenmq.server.routing.spec import JSON, RouteSpec, route


class OpenApiRoute:
    """Describes all routes that `specs` returns, itself included."""

    def __init__(self, specs: Callable[[], Sequence[RouteSpec]]) -> None:
        self._specs = specs
        self._body: bytes | None = None

    @route("GET", "/openapi.json", dict[str, Any])
    async def document(self, _: Request) -> Response:
        """Describe every route in OpenAPI 3.1."""
        if self._body is None:
            # Made when it is first asked for: a start should not wait for it.
            self._body = wire.encode(build_document(self._specs(), version=__version__))
        return Response(self._body, media_type=JSON)
