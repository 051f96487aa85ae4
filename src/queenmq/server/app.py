"""Routes every request: hot ones to plain functions, all others through Starlette."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route, Router
from starlette.types import Receive, Scope, Send

from queenmq import wire
from queenmq.errors import Overloaded, QueenError
from queenmq.server.answers.error_responses import body_of, retry_after_s, status_of
from queenmq.server.answers.failure_log import FailureLog
from queenmq.server.answers.refusals import Refusals
from queenmq.server.answers.responses import json_answer
from queenmq.server.edge.asgi_bridge import run_asgi
from queenmq.server.edge.exchange import Exchange
from queenmq.server.requests.queries import parse_path
from queenmq.server.routes.admin.aside import AsideRoutes
from queenmq.server.routes.admin.groups import GroupRoutes
from queenmq.server.routes.admin.operations import OperationRoutes
from queenmq.server.routes.admin.queues import PARTITIONS, QueueRoutes
from queenmq.server.routes.admin.resources import ResourceRoutes
from queenmq.server.routes.admin.retention import RetentionRoutes
from queenmq.server.routes.admin.system import SystemRoutes
from queenmq.server.routes.hot.ack import AckRoute
from queenmq.server.routes.hot.pop import PREFIX as POP_PREFIX
from queenmq.server.routes.hot.pop import PopRoute
from queenmq.server.routes.hot.push import PushRoute
from queenmq.server.routes.hot.transactions import TransactionRoutes
from queenmq.server.routes.inspection.health import HealthRoutes
from queenmq.server.routes.inspection.metrics import MetricsRoutes
from queenmq.server.routes.inspection.pipeline import PipelineRoutes
from queenmq.server.wiring.inspection import Inspection
from queenmq.server.wiring.streams import StreamRoutes

logger = logging.getLogger(__name__)

Handler = Callable[[Exchange], None]
Endpoint = Callable[[Request], Awaitable[Response]]


class _NameConvertor(Convertor[str]):
    """Any text, slashes and line breaks included; the names of queues are free."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("name", _NameConvertor())


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
        groups: GroupRoutes,
        resources: ResourceRoutes,
        inspection: Inspection,
        retention: RetentionRoutes,
        operations: OperationRoutes,
        aside: AsideRoutes,
        pipeline: PipelineRoutes,
        streams: StreamRoutes,
        system: SystemRoutes,
        health: HealthRoutes,
        metrics: MetricsRoutes,
        refusals: Refusals,
    ) -> None:
        self._refusals = refusals
        self._hot: dict[tuple[str, bytes], Handler] = {
            ("POST", b"/api/v1/push"): push,
            ("POST", b"/api/v1/ack"): ack.one,
            ("POST", b"/api/v1/ack/batch"): ack.batch,
            ("POST", b"/streams/v1/state/get"): streams.cycles.read_state,
            ("POST", b"/streams/v1/cycle"): streams.cycles.commit,
            ("GET", b"/health/live"): health.live,
            ("HEAD", b"/health/live"): health.live,
        }
        self._pop = pop
        self._metrics = metrics
        self._router = Router(
            [
                _route("/api/v1/transaction", transactions.transaction, "POST"),
                _route("/api/v1/lease/{lease_id:name}/extend", transactions.extend, "POST"),
                *_queue_routes(queues, resources),
                _route("/api/v1/analytics/retention", retention.show, "GET"),
                *_group_routes(groups),
                *_inspection_routes(inspection),
                *_operation_routes(operations, aside),
                *_stream_routes(streams),
                _route("/api/v1/analytics/pipeline", pipeline.runs, "GET"),
                _route("/api/v1/analytics/pipeline/{table:name}", pipeline.table, "GET"),
                _routes("/api/v1/system/maintenance", GET=system.show, POST=system.switch),
                _routes(
                    "/api/v1/system/maintenance/pop", GET=system.show_pop, POST=system.switch_pop
                ),
                _route("/health", health.health, "GET"),
                _route("/health/ready", health.ready, "GET"),
                _route("/metrics", metrics.overview, "GET"),
                _route("/metrics/prometheus", metrics.text, "GET"),
            ],
            redirect_slashes=False,
            default=self._unknown,
        )
        self._paths = {path for _, path in self._hot}
        self._failures = FailureLog()

    def __call__(self, exchange: Exchange) -> None:
        """Answer the request, now or later. What it raises is for `fail`."""
        self._metrics.requests += 1
        head = exchange.head
        method, path = head.method, head.path
        handler = self._hot.get((method, path))
        if handler is not None:
            handler(exchange)
        elif _is_pop(path):
            if method == "GET":
                self._pop(exchange)
            elif method == "OPTIONS":
                exchange.answer(204, b"", ())
            else:
                _answer_wrong_method(exchange)
        elif method == "OPTIONS":
            exchange.answer(204, b"", ())
        elif b"%" in path and (handler := self._hot.get((method, unquote_to_bytes(path)))):
            handler(exchange)
        elif path in self._paths:
            _answer_wrong_method(exchange)
        else:
            exchange.run(run_asgi(self._router, exchange))

    def fail(self, exchange: Exchange, error: BaseException) -> None:
        """Answer a request that failed. A failing request never takes the server with it."""
        if isinstance(error, asyncio.CancelledError):
            return
        path = exchange.head.path.decode("latin-1")
        if not isinstance(error, QueenError):
            facts = {"event": "defect", "path": path}
            logger.error("a request broke", exc_info=error, extra=facts)
            exchange.answer(500, b'{"error":"internal error; the server log has the details"}')
            return
        if isinstance(error, Overloaded):
            self._refusals.count(error)
        if status_of(error) >= 500:
            self._failures.note(error, path)
        seconds = retry_after_s(error)
        headers = [(b"content-type", b"application/json")]
        if seconds is not None:
            headers.append((b"retry-after", b"%d" % seconds))
        exchange.answer(status_of(error), wire.encode(body_of(error)), headers)

    async def _unknown(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = f"there is no {scope['path'][:200]!r} here; see the API page for the routes"
        await json_answer({"error": error}, 404)(scope, receive, send)


def _queue_routes(queues: QueueRoutes, resources: ResourceRoutes) -> list[Route]:
    """Longest paths first, because a name may hold slashes."""
    queue = "/api/v1/resources/queues/{queue:name}"
    return [
        _route("/api/v1/configure", queues.configure, "POST"),
        _route("/api/v1/resources/queues", resources.queues, "GET"),
        _PartitionRoute(
            queue + "/partitions/{partition:name}", _Endpoint({"DELETE": queues.delete_partition})
        ),
        _routes(queue, GET=resources.queue, DELETE=queues.delete),
        _route("/api/v1/resources/namespaces", resources.namespaces, "GET"),
        _route("/api/v1/resources/tasks", resources.tasks, "GET"),
        _route("/api/v1/queues/{queue:name}/clear", queues.clear, "DELETE"),
    ]


def _operation_routes(operations: OperationRoutes, aside: AsideRoutes) -> list[Route]:
    """Longest paths first, because an id may be any word."""
    operation = "/api/v1/operations/{operation_id}"
    return [
        _route("/api/v1/operations", operations.list, "GET"),
        _route("/api/v1/operations/stats", operations.stats, "GET"),
        _route("/api/v1/operations/aside", aside.list, "GET"),
        _route("/api/v1/operations/retry", aside.retry, "POST"),
        _route(operation, operations.show, "GET"),
        _route(operation + "/retry", operations.retry, "POST"),
        _route(operation + "/discard", operations.discard, "POST"),
    ]


def _stream_routes(streams: StreamRoutes) -> list[Route]:
    queries = streams.queries
    return [
        _route("/streams/v1/queries", queries.register, "POST"),
        _route("/api/v1/streams", queries.list, "GET"),
        _routes("/api/v1/streams/{name:name}", GET=queries.show, DELETE=queries.delete),
    ]


def _group_routes(groups: GroupRoutes) -> list[Route]:
    """Longest paths first, because a name may hold slashes."""
    top = "/api/v1/consumer-groups"
    on_queue = top + "/{group:name}/queues/{queue:name}"
    return [
        _route(top, groups.list, "GET"),
        _route(top + "/lagging", groups.lagging, "GET"),
        _route(on_queue + "/partitions/{partition:name}/seek", groups.seek_partition, "POST"),
        _route(on_queue + "/seek", groups.seek, "POST"),
        _route(on_queue, groups.delete_on_queue, "DELETE"),
        _route(top + "/{group:name}/subscription", groups.set_start, "POST"),
        _routes(top + "/{group:name}", GET=groups.show, DELETE=groups.delete),
    ]


def _inspection_routes(routes: Inspection) -> list[Route]:
    """Longest paths first, because a name may hold slashes."""
    messages, letters, traces, status, why = routes
    message = "/api/v1/messages/{partition_id}/{transaction_id:name}"
    on_queue = "/api/v1/status/queues/{queue:name}"
    return [
        _route("/api/v1/messages", messages.list, "GET"),
        _route(message + "/retry", messages.retry, "POST"),
        _route(message + "/dlq", messages.bury, "POST"),
        _routes(message, GET=messages.show, DELETE=messages.delete),
        _routes("/api/v1/dlq", GET=letters.list, DELETE=letters.purge),
        _route("/api/v1/dlq/retry", letters.retry, "POST"),
        _route("/api/v1/traces", traces.add, "POST"),
        _route("/api/v1/traces/names", traces.names, "GET"),
        _route("/api/v1/traces/by-name/{name:name}", traces.by_name, "GET"),
        _route("/api/v1/traces/{partition_id}/{transaction_id:name}", traces.of_message, "GET"),
        _route("/api/v1/resources/overview", status.overview, "GET"),
        _route("/api/v1/stats/refresh", status.refresh, "POST"),
        _route("/api/v1/status", status.status, "GET"),
        _route("/api/v1/status/analytics", status.analytics, "GET"),
        _route("/api/v1/status/buffers", status.buffers, "GET"),
        _route("/api/v1/status/queues", status.queues, "GET"),
        _route(on_queue + "/messages", messages.of_queue, "GET"),
        _route(on_queue, status.queue, "GET"),
        _route("/api/v1/why/{queue:name}", why.show, "GET"),
    ]


def _is_pop(path: bytes) -> bool:
    if not path.startswith(POP_PREFIX):
        return False
    rest = path[len(POP_PREFIX) :]
    return rest in (b"", b"/") or (rest.startswith(b"/queue/") and len(rest) > len(b"/queue/"))


def _wrong_method_text(path: str, method: str) -> str:
    return f"{path[:200]!r} does not take {method}; see the API page"


def _answer_wrong_method(exchange: Exchange) -> None:
    path = exchange.head.path.decode("latin-1")
    error = _wrong_method_text(path, exchange.head.method)
    exchange.answer(405, wire.encode({"error": error}))


class _Endpoint:
    """A Starlette endpoint whose errors are answered like those of the hot routes.

    An ASGI application rather than a function: methods that a function does not list are answered
    by Starlette itself, and not in JSON.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint = self._endpoints.get(method)
        if endpoint is None:
            error = _wrong_method_text(scope["path"], scope["method"])
            await json_answer({"error": error}, 405)(scope, receive, send)
            return
        parse_path(scope["raw_path"])
        response = await endpoint(Request(scope, receive))
        await response(scope, receive, send)


class _PartitionRoute(Route):
    """A partition below a queue, where no escaped slash makes it all the name of one queue."""

    def matches(self, scope: MutableMapping[str, Any]) -> tuple[Match, MutableMapping[str, Any]]:
        if scope["method"] == "DELETE" and PARTITIONS in scope["raw_path"]:
            return super().matches(scope)
        return Match.NONE, {}


def _route(path: str, endpoint: Endpoint, method: str) -> Route:
    return _routes(path, **{method: endpoint})


def _routes(path: str, **endpoints: Endpoint) -> Route:
    return Route(path, _Endpoint(endpoints))
