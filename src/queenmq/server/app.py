"""The ASGI application: hot paths by hand, everything else through Starlette."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from queenmq.errors import QueenError
from queenmq.server import asgi
from queenmq.server.error_responses import RETRY_AFTER, status_of
from queenmq.server.responses import json_answer
from queenmq.server.routes.ack import AckRoute
from queenmq.server.routes.health import HealthRoutes
from queenmq.server.routes.pop import PREFIX as POP_PREFIX
from queenmq.server.routes.pop import PopRoute
from queenmq.server.routes.push import PushRoute
from queenmq.server.routes.queues import QueueRoutes
from queenmq.server.routes.transactions import TransactionRoutes

logger = logging.getLogger(__name__)

Handler = Callable[[asgi.Scope, asgi.Receive, asgi.Send], Awaitable[None]]
Endpoint = Callable[[Request], Awaitable[Response]]


class App:
    """Routes requests and turns errors into answers. A failing request never takes the server
    along.
    """

    def __init__(
        self,
        *,
        push: PushRoute,
        pop: PopRoute,
        ack: AckRoute,
        transactions: TransactionRoutes,
        queues: QueueRoutes,
        health: HealthRoutes,
    ) -> None:
        self._hot: dict[tuple[str, str], Handler] = {
            ("POST", "/api/v1/push"): push,
            ("POST", "/api/v1/ack"): ack.one,
            ("POST", "/api/v1/ack/batch"): ack.batch,
        }
        self._pop = pop
        self._router = Router(
            [
                _route("/api/v1/transaction", transactions.transaction, "POST"),
                _route("/api/v1/lease/{lease_id}/extend", transactions.extend, "POST"),
                _route("/api/v1/configure", queues.configure, "POST"),
                _route("/api/v1/resources/queues/{queue:path}", queues.delete, "DELETE"),
                _route("/api/v1/queues/{queue:path}/clear", queues.clear, "DELETE"),
                _route("/api/v1/dlq", queues.dead_letters, "GET"),
                _route("/health", health.health, "GET"),
                _route("/health/live", health.live, "GET"),
                _route("/health/ready", health.ready, "GET"),
            ],
            redirect_slashes=False,
            default=self._unknown,
        )
        self._paths = {path for _, path in self._hot}

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        if scope["type"] != "http":
            return
        try:
            await self._dispatch(scope, receive, send)
        except asgi.ClientDisconnected:
            logger.debug("caller left mid-request", extra={"event": "caller_left"})
        except QueenError as error:
            if status_of(error) >= 500:
                logger.warning(
                    "%s", error, extra={"event": "request_failed", "path": scope["path"]}
                )
            await asgi.send_error(send, error)
        except Exception:
            logger.exception("a request broke", extra={"event": "defect", "path": scope["path"]})
            body = b'{"error":"internal error; the server log has the details"}'
            await asgi.send_json(send, 500, body)

    async def _dispatch(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        method, path = scope["method"], scope["path"]
        handler = self._hot.get((method, path))
        if handler is not None:
            await handler(scope, receive, send)
        elif method == "GET" and scope["raw_path"].startswith(POP_PREFIX) and _is_pop(scope):
            await self._pop(scope, receive, send)
        elif method == "OPTIONS":
            await asgi.send_empty(send)
        elif path in self._paths or _is_pop(scope):
            await _wrong_method(scope, receive, send)
        else:
            await self._router(scope, receive, send)

    async def _unknown(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        error = f"there is no {scope['path'][:200]!r} here; see the API page for the routes"
        await json_answer({"error": error}, 404)(scope, receive, send)


def _is_pop(scope: asgi.Scope) -> bool:
    rest = scope["raw_path"][len(POP_PREFIX) :]
    return scope["raw_path"].startswith(POP_PREFIX) and (
        rest in (b"", b"/") or (rest.startswith(b"/queue/") and len(rest) > len(b"/queue/"))
    )


async def _wrong_method(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
    error = f"{scope['path'][:200]!r} does not take {scope['method']}; see the API page"
    await json_answer({"error": error}, 405)(scope, receive, send)


def _route(path: str, endpoint: Endpoint, method: str) -> Route:
    """A Starlette route whose errors are answered like those of the hot routes."""

    async def guarded(request: Request) -> Response:
        try:
            return await endpoint(request)
        except QueenError as error:
            status = status_of(error)
            response = json_answer({"error": str(error)}, status)
            if status == 503:
                response.headers["retry-after"] = RETRY_AFTER
            return response
        except HTTPException as error:
            return json_answer({"error": str(error.detail)}, error.status_code)

    async def checked(request: Request) -> Response:
        if request.method != method and not (method == "GET" and request.method == "HEAD"):
            error = f"{request.url.path[:200]!r} does not take {request.method}; use {method}"
            return json_answer({"error": error}, 405)
        return await guarded(request)

    return Route(path, checked, methods=["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"])
