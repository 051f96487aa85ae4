"""Routes every request: hot ones to plain functions, all others through Starlette."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route, Router
from starlette.types import Receive, Scope, Send

from queenmq import wire
from queenmq.auth.rights import Right, right_of
from queenmq.errors import Overloaded, QueenError, Unauthenticated, is_confidential
from queenmq.ids import new_error_id
from queenmq.server.answers.error_responses import (
    DEFECT,
    METHOD_NOT_ALLOWED,
    NO_SUCH_ROUTE,
    body_of,
    retry_after_s,
    status_of,
)
from queenmq.server.answers.failure_log import FailureLog
from queenmq.server.answers.responses import json_answer
from queenmq.server.auth.callers import check_caller
from queenmq.server.auth.endpoint import CheckedEndpoint
from queenmq.server.auth.gate import Gate
from queenmq.server.auth.wiring import Access
from queenmq.server.edge.asgi_bridge import run_asgi
from queenmq.server.edge.exchange import Exchange
from queenmq.server.metering.refusals import Refusals
from queenmq.server.metering.requests import RequestMeter, RouteMeter
from queenmq.server.requests.queries import parse_path
from queenmq.server.routes.hot.pop import PREFIX as POP_PREFIX
from queenmq.server.routes.hot.pop import PopRoute
from queenmq.server.routes.hot.transactions import EXTEND_PATH, is_extension
from queenmq.server.routing.spec import RouteSpec, bound_routes

logger = logging.getLogger(__name__)

_POP = right_of("GET", "/api/v1/pop/queue/{queue:name}")
_POP_ANY = right_of("GET", "/api/v1/pop")
_POP_QUEUE = POP_PREFIX + b"/queue/"

Handler = Callable[[Exchange], None]
Endpoint = Callable[[Request], Awaitable[Response]]


class Served(NamedTuple):
    """A hot route: its handler, its rights and its meter."""

    handler: Handler
    right: Right
    meter: RouteMeter


class _NameConvertor(Convertor[str]):
    """Matches any text, including slashes and line breaks, because queue names may have them."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("name", _NameConvertor())


class App:
    """Routes requests and turns errors into answers. A failing request never stops the server.

    `routes` are the objects whose methods are routes. `pop` is one of them.
    """

    def __init__(
        self,
        routes: Iterable[object],
        *,
        pop: PopRoute,
        meter: RequestMeter,
        refusals: Refusals,
        access: Access,
    ) -> None:
        self._meter = meter
        self._refusals = refusals
        self._gate: Gate = access.gate
        self._access = access
        pops = meter.route("GET", POP_PREFIX.decode())
        self._pop_queue, self._pop_any = Served(pop, _POP, pops), Served(pop, _POP_ANY, pops)
        self._hot: dict[tuple[str, bytes], Served] = {}
        others: list[tuple[RouteSpec, Endpoint]] = []
        # Pops have names in their paths, so they are found by prefix.
        found = [one for owner in routes if owner is not pop for one in bound_routes(owner)]
        for spec, handler in found:
            if not spec.is_hot:
                others.append((spec, handler))
                continue
            right = right_of(spec.method, spec.path)
            # Every GET route answers HEAD as well.
            for method in ("GET", "HEAD") if spec.method == "GET" else (spec.method,):
                served = Served(handler, right, meter.route(method, spec.path))
                if spec.path == EXTEND_PATH:
                    self._extend = served
                else:
                    self._hot[method, spec.path.encode()] = served
        self._router = Router(
            _router_routes(others, meter), redirect_slashes=False, default=self._serve_unknown
        )
        self._paths = {path for _, path in self._hot}
        self._failures = FailureLog()

    def __call__(self, exchange: Exchange) -> None:
        """Answer the request, now or later. Its errors go to `fail`."""
        identity = self._gate.recall(exchange.head, exchange.address)
        if identity is None:
            exchange.run(self._meet(exchange))
            return
        exchange.identity = identity
        self._serve(exchange)

    async def _meet(self, exchange: Exchange) -> None:
        """Serve a request with a new credential."""
        exchange.identity = await self._gate.identify(exchange.head, exchange.address)
        if exchange.has_left:
            # The client has left, but the body counts as held until the request is answered.
            exchange.answer(503, b"")
        else:
            self._serve(exchange)

    def _serve(self, exchange: Exchange) -> None:
        head = exchange.head
        method, path = head.method, head.path
        hot = self._hot.get((method, path))
        if hot is not None:
            _serve_hot(exchange, hot)
        elif _is_pop(path):
            is_named = path.startswith(_POP_QUEUE)
            _serve_named(exchange, "GET", self._pop_queue if is_named else self._pop_any)
        elif is_extension(path):
            _serve_named(exchange, "POST", self._extend)
        elif method == "OPTIONS":
            exchange.answer(204, b"", ())
        elif b"%" in path and (hot := self._hot.get((method, unquote_to_bytes(path)))):
            _serve_hot(exchange, hot)
        elif path in self._paths:
            _answer_wrong_method(exchange)
        else:
            exchange.run(run_asgi(self._route, exchange))

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["access"] = self._access
        await self._router(scope, receive, send)

    def fail(self, exchange: Exchange, error: BaseException) -> None:
        """Answer a request that failed. A failing request never stops the server."""
        if isinstance(error, asyncio.CancelledError):
            return
        path = exchange.head.path.decode("latin-1")
        if not isinstance(error, QueenError):
            facts = {"event": "defect", "error_id": new_error_id(), "path": path}
            logger.error("A request failed unexpectedly.", exc_info=error, extra=facts)
            body = msgspec.structs.replace(DEFECT, error_id=facts["error_id"])
            exchange.answer(500, wire.encode(body))
            return
        self._meter.note_failure(error, status_of(error))
        if isinstance(error, Overloaded):
            self._refusals.count(error)
        body = body_of(error)
        if status_of(error) >= 500 or is_confidential(error):
            body.error_id = self._failures.note(error, path)
        seconds = retry_after_s(error)
        headers = [(b"content-type", b"application/json")]
        if seconds is not None:
            headers.append((b"retry-after", b"%d" % seconds))
        if isinstance(error, Unauthenticated):
            headers.append((b"www-authenticate", b"Bearer"))
        exchange.answer(status_of(error), wire.encode(body), headers)

    async def _serve_unknown(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = f"No route matches {scope['path'][:200]!r}. See docs/api.md for the list of routes."
        answer = json_answer(wire.ErrorAnswer(text, NO_SUCH_ROUTE), 404)
        await answer(scope, receive, send)


def _router_routes(found: Iterable[tuple[RouteSpec, Endpoint]], meter: RequestMeter) -> list[Route]:
    """Return a Starlette route per path, most specific first, because names may have slashes."""
    by_path: dict[str, dict[str, tuple[RouteSpec, Endpoint]]] = {}
    for spec, endpoint in found:
        by_path.setdefault(spec.path, {})[spec.method] = (spec, endpoint)
    routes = []
    for path, methods in by_path.items():
        specs = [spec for spec, _ in methods.values()]
        endpoints = {name: endpoint for name, (_, endpoint) in methods.items()}
        by_method = _Endpoint(path, endpoints, meter)
        routes.append((specs[0].specificity, _ApiRoute(path, by_method, when=specs[0].when)))
    routes.sort(key=lambda one: -one[0])
    return [route for _, route in routes]


def _serve_hot(exchange: Exchange, served: Served) -> None:
    exchange.route = served.meter
    check_caller(exchange, served.right)
    served.handler(exchange)


def _serve_named(exchange: Exchange, method: str, served: Served) -> None:
    """Answer a request to a path with a name in it, which takes this method alone."""
    if exchange.head.method == method:
        _serve_hot(exchange, served)
    elif exchange.head.method == "OPTIONS":
        exchange.answer(204, b"", ())
    else:
        _answer_wrong_method(exchange)


def _is_pop(path: bytes) -> bool:
    if not path.startswith(POP_PREFIX):
        return False
    rest = path[len(POP_PREFIX) :]
    return rest in (b"", b"/") or (rest.startswith(b"/queue/") and len(rest) > len(b"/queue/"))


def _wrong_method(path: str, method: str) -> wire.ErrorAnswer:
    text = f"{path[:200]!r} does not take {method}. See docs/api.md for its methods."
    return wire.ErrorAnswer(text, METHOD_NOT_ALLOWED)


def _answer_wrong_method(exchange: Exchange) -> None:
    path = exchange.head.path.decode("latin-1")
    exchange.answer(405, wire.encode(_wrong_method(path, exchange.head.method)))


class _Endpoint:
    """A Starlette endpoint whose errors are answered like those of the hot routes.

    It is an ASGI application and not a function, because Starlette itself answers methods that a
    function does not list, and not in JSON.
    """

    def __init__(self, path: str, endpoints: Mapping[str, Endpoint], meter: RequestMeter) -> None:
        self._endpoints = {
            method: (CheckedEndpoint(endpoint, right_of(method, path)), meter.route(method, path))
            for method, endpoint in endpoints.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        found = self._endpoints.get(method)
        if found is None:
            answer = json_answer(_wrong_method(scope["path"], scope["method"]), 405)
            await answer(scope, receive, send)
            return
        endpoint, scope["exchange"].route = found
        parse_path(scope["raw_path"])
        response = await endpoint(Request(scope, receive))
        await response(scope, receive, send)


class _ApiRoute(Route):
    """A route that may check more of a request than its path."""

    def __init__(
        self, path: str, endpoint: _Endpoint, *, when: Callable[[Scope], bool] | None
    ) -> None:
        super().__init__(path, endpoint)
        self._when = when

    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, MutableMapping[str, Any]]:
        if self._when is None or self._when(scope):
            return super().matches(scope)
        return Match.NONE, {}
