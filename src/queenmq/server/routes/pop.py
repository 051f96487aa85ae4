"""GET /api/v1/pop...: parse the path and query, hand to the pop service, splice the messages into
the answer.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Sequence

from queenmq import wire
from queenmq.clock import now_ms
from queenmq.engine.intention import PopAnswer
from queenmq.engine.load import OperationType
from queenmq.engine.load_manager import LoadManager
from queenmq.engine.maintenance import Maintenance
from queenmq.engine.operation import QUEUE_MODE, PopGrant, PopRequest, Scope, Subscription
from queenmq.engine.pop_desk import LEFT
from queenmq.engine.pop_service import PopService
from queenmq.engine.subscriptions import Subscriptions
from queenmq.errors import InvalidRequest, QueenError
from queenmq.server import asgi
from queenmq.server.checks import check_name
from queenmq.server.queries import (
    parse_boolean,
    parse_integer,
    parse_path,
    parse_query,
    parse_time,
)
from queenmq.settings import Settings

PREFIX = b"/api/v1/pop"
_QUEUES = PREFIX + b"/queue/"
_NEW_MODES = ("new", "new-only")
#: What the reason header says when a pop finds nothing.
_REASONS = {"": "no_available_partition", "held": "lease_held", "none": "no_available_partition"}

_PAUSED = PopAnswer((), "paused")


class PopRoute:
    """The handler, as bare ASGI."""

    def __init__(
        self,
        service: PopService,
        subscriptions: Subscriptions,
        load: LoadManager,
        maintenance: Maintenance,
        settings: Settings,
    ) -> None:
        self._service = service
        self._maintenance = maintenance
        self._load = load
        self._subscriptions = subscriptions
        # Consumers repeat themselves: parsing each distinct request once is most of the parsing.
        self._parse = functools.lru_cache(maxsize=4096)(
            functools.partial(parse_pop, settings=settings)
        )

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        request = self._parse(scope["raw_path"], scope["query_string"])
        answer = await self._pop(request, scope, receive)
        if answer.grants:
            await asgi.send_json(send, 200, encode_answer(request.consumer_group, answer.grants))
        else:
            reason = "timeout" if answer.is_timeout else _REASONS.get(answer.reason, answer.reason)
            await asgi.send_empty(send, ((b"queen-reason", reason.encode()),))

    def parse_next(self, url: str) -> PopRequest:
        """A pop that is to follow acks, by its path and query."""
        path, _, query = url.encode().partition(b"?")
        if path != PREFIX and not path.startswith(_QUEUES):
            raise InvalidRequest(
                f"next {url!r:.200} is no pop; use {_QUEUES.decode()}<queue>?batch=10"
            )
        try:
            request = self._parse(path, query)
        except InvalidRequest as error:
            raise InvalidRequest(f"next is wrong: {error}") from None
        if request.wait_ms is not None:
            raise InvalidRequest(
                f"next {url!r:.200} waits, and the acks with it; leave wait out, and pop to wait"
            )
        return request

    async def follow(
        self, request: PopRequest, scope: asgi.Scope, receive: asgi.Receive
    ) -> bytes | None:
        """The answer to a pop that follows acks; None when it gets nothing.

        What keeps it from getting something is no reason to withhold what became of the acks.
        """
        if asgi.has_left(receive):
            return None
        try:
            answer = await self._pop(request, scope, receive)
        except QueenError:
            return None
        return encode_answer(request.consumer_group, answer.grants) if answer.grants else None

    async def _pop(
        self, request: PopRequest, scope: asgi.Scope, receive: asgi.Receive
    ) -> PopAnswer:
        """Nothing stays leased for a caller that leaves meanwhile."""
        self._load.admit(OperationType.POP)
        if self._maintenance.is_pop:
            served = await self._wait_out(request)
            if served is None or asgi.has_left(receive):
                return _PAUSED
            request = served
        if request.subscription is not None:
            await self._subscriptions.ensure(request)
            if asgi.has_left(receive):
                return LEFT
        intention = self._service.submit(request)
        scope[asgi.ON_LOST] = functools.partial(self._service.leave, intention)
        try:
            answer: PopAnswer = await intention.answer
        except asyncio.CancelledError:
            self._service.leave(intention)
            raise
        finally:
            scope.pop(asgi.ON_LOST, None)
        if answer.grants and asgi.has_left(receive):
            # It left between its answer and now.
            self._service.hand_back(request, answer.grants)
            return LEFT
        return answer

    async def _wait_out(self, request: PopRequest) -> PopRequest | None:
        """Hold a pop that may wait until pops are served again; None when its time is up."""
        if request.wait_ms is None:
            return None
        began = now_ms()
        if not await self._maintenance.wait_for_pops(request.wait_ms / 1000):
            return None
        left_ms = request.wait_ms - int(now_ms() - began)
        return dataclasses.replace(request, wait_ms=max(left_ms, 0))


@functools.lru_cache(maxsize=65_536)
def _json_text(name: str) -> str:
    return wire.encode(name).decode()


def encode_answer(consumer_group: str, grants: Sequence[PopGrant]) -> bytes:
    """The answer around messages that the database has already put into JSON."""
    first = grants[0]
    return "".join(
        (
            '{"success":true,"queue":',
            _json_text(first.queue_name or ""),
            ',"partition":',
            _json_text(first.partition_name or ""),
            f',"partitionId":"{first.partition_id}","leaseId":"{first.lease_id}","consumerGroup":',
            _json_text(consumer_group),
            f',"partitionsClaimed":{len(grants)},"messages":[',
            ",".join([grant.messages or "" for grant in grants]),
            "]}",
        )
    ).encode()


def parse_pop(raw_path: bytes, query_string: bytes, *, settings: Settings) -> PopRequest:
    """The request that a path and query string ask for."""
    query = parse_query(query_string)
    group = query.get("consumerGroup") or QUEUE_MODE
    check_name("consumerGroup", group, length_max=settings.max_name_length)
    scope = _parse_scope(raw_path, query, settings.max_name_length)
    batch = parse_integer(query, "batch", settings.default_batch_size)
    if not 1 <= batch <= settings.max_batch_size:
        raise InvalidRequest(f"batch {batch} is out of range; use 1 to {settings.max_batch_size}")
    partitions = parse_integer(query, "partitions", 1)
    if not 1 <= partitions <= settings.pop_candidates_max:
        raise InvalidRequest(
            f"partitions {partitions} is out of range; use 1 to {settings.pop_candidates_max}"
        )
    timeout = parse_integer(query, "timeout", settings.default_timeout_ms)
    if not 0 <= timeout <= settings.max_timeout_ms:
        raise InvalidRequest(
            f"timeout {timeout} is out of range; use 0 to {settings.max_timeout_ms} milliseconds"
        )
    return PopRequest(
        scope=scope,
        consumer_group=group,
        batch=batch,
        partitions=1 if scope.partition is not None else partitions,
        is_auto_ack=parse_boolean(query, "autoAck"),
        wait_ms=timeout if parse_boolean(query, "wait") else None,
        subscription=_subscription(group, query, settings.default_subscription_mode),
    )


def _parse_scope(raw_path: bytes, query: dict[str, str], length_max: int) -> Scope:
    rest = raw_path[len(PREFIX) :]
    if rest in (b"", b"/"):
        namespace, task = query.get("namespace") or None, query.get("task") or None
        if namespace is None and task is None:
            raise InvalidRequest(
                "namespace or task is required; or pop from /api/v1/pop/queue/<queue>"
            )
        for field, value in (("namespace", namespace), ("task", task)):
            if value is not None:
                check_name(field, value, length_max=length_max)
        return Scope(namespace=namespace, task=task)
    # Names may hold slashes that a client did not escape; only the first "/partition/" is ours.
    queue_part, found, partition_part = rest.removeprefix(b"/queue/").partition(b"/partition/")
    queue = check_name("queue", parse_path(queue_part), length_max=length_max)
    if not found:
        return Scope(queue=queue)
    return Scope(queue, check_name("partition", parse_path(partition_part), length_max=length_max))


def _subscription(group: str, query: dict[str, str], default_mode: str) -> Subscription | None:
    if group == QUEUE_MODE:
        return None
    start = query.get("subscriptionFrom", "")
    if start == "now":
        return Subscription(None)
    if start:
        return Subscription(parse_time("subscriptionFrom", start))
    mode = query.get("subscriptionMode") or default_mode
    return Subscription(None) if mode in _NEW_MODES else None
