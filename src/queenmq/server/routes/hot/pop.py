"""GET /api/v1/pop...: parse the path and query, hand to the pop service, splice the messages into
the answer.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from queenmq import wire
from queenmq.auth.decision import check_queue
from queenmq.auth.identity import Identity
from queenmq.clock import now_ms, unix_ms
from queenmq.engine.load.manager import LoadManager
from queenmq.engine.load.pressure import OperationType
from queenmq.engine.maintenance import Maintenance
from queenmq.engine.pop.board.state import PAUSED
from queenmq.engine.pop.intention import PopAnswer
from queenmq.engine.pop.service import LEFT, PopService
from queenmq.engine.pop.subscriptions import Subscriptions
from queenmq.engine.requests import QUEUE_MODE, PopGrant, PopRequest, Scope, Subscription
from queenmq.errors import InvalidRequest, QueenError
from queenmq.server.answers.opening import Opener
from queenmq.server.edge.exchange import Exchange
from queenmq.server.metering.traffic import Traffic
from queenmq.server.requests.checks import check_name
from queenmq.server.requests.queries import (
    parse_boolean,
    parse_integer,
    parse_path,
    parse_query,
    parse_time,
)
from queenmq.server.routing.spec import route
from queenmq.settings import Settings

_PATH = "/api/v1/pop"
PREFIX = _PATH.encode()
_QUEUES = PREFIX + b"/queue/"
_SCOPE: dict[str, Any] = {"namespace": str, "task": str}
_QUERY: dict[str, Any] = {
    "batch": int,
    "partitions": int,
    "wait": bool,
    "timeout": int,
    "consumerGroup": str,
    "autoAck": bool,
    "leaseSeconds": int,
    "subscriptionMode": str,
    "subscriptionFrom": str,
}
#: As for an extension.
_LEASE_SECONDS_MAX = 86_400
_NEW_MODES = ("new", "new-only")
_POP = OperationType.POP
#: What the reason header says when a pop finds nothing.
_REASONS = {"": "no_available_partition", "held": "lease_held", "none": "no_available_partition"}


class PopRoute:
    """The handler. No task, unless a pop has to wait for something before it can start."""

    def __init__(
        self,
        service: PopService,
        subscriptions: Subscriptions,
        load: LoadManager,
        maintenance: Maintenance,
        settings: Settings,
        traffic: Traffic,
        opener: Opener,
    ) -> None:
        self._traffic = traffic
        self._opener = opener
        self._service = service
        self._maintenance = maintenance
        self._load = load
        self._subscriptions = subscriptions
        # Consumers repeat requests, so parsing each distinct one once saves most of the work.
        self._parse = functools.lru_cache(maxsize=4096)(
            functools.partial(parse_pop, settings=settings)
        )

    @route("GET", _PATH, wire.PopAnswer, also={204: None}, query=_SCOPE | _QUERY, is_hot=True)
    @route(
        "GET", _PATH + "/queue/{queue}", wire.PopAnswer, also={204: None}, query=_QUERY, is_hot=True
    )
    @route(
        "GET",
        _PATH + "/queue/{queue}/partition/{partition}",
        wire.PopAnswer,
        also={204: None},
        query=_QUERY,
        is_hot=True,
    )
    def __call__(self, exchange: Exchange) -> None:
        """Lease messages and return them; 204 with the header Queen-Reason if there are none."""
        request = self._parse(exchange.head.path, exchange.head.query)
        if exchange.identity.is_limited:
            check_queue(exchange.identity, request.scope.queue)
        self._load.admit(_POP)
        if self._maintenance.is_pop or not self._subscriptions.is_fixed(request):
            exchange.run(self._start_later(exchange, request))
            return
        intention = self._service.submit(request)
        exchange.on_left = functools.partial(self._service.leave, intention)
        exchange.follow(intention.answer, functools.partial(self._deliver, exchange, request))

    async def _start_later(self, exchange: Exchange, request: PopRequest) -> None:
        self._deliver(exchange, request, await self._pop(exchange, request))

    def _deliver(self, exchange: Exchange, request: PopRequest, answer: PopAnswer) -> None:
        exchange.on_left = None
        answer = self._take_back(exchange, request, self._open(request, answer))
        self._traffic.note_delivery(request, answer.grants)
        if answer.grants:
            exchange.answer(200, encode_answer(request.consumer_group, answer.grants))
        else:
            reason = "timeout" if answer.is_timeout else _REASONS.get(answer.reason, answer.reason)
            exchange.answer(204, b"", ((b"queen-reason", reason.encode()),))

    def _open(self, request: PopRequest, answer: PopAnswer) -> PopAnswer:
        """Decrypt the messages.

        Unreadable ones stay in their queue. Raises if nothing is left, so that a consumer gets the
        error.
        """
        if not any([grant.is_encrypted for grant in answer.grants]):
            return answer
        opened = self._opener.open_grants(answer.grants)
        if opened.sealed:
            self._service.undo(request, opened.sealed)
            if not opened.grants and opened.error is not None:
                raise opened.error
        return dataclasses.replace(answer, grants=opened.grants)

    def _take_back(self, exchange: Exchange, request: PopRequest, answer: PopAnswer) -> PopAnswer:
        """Hand back the messages of a client that has left, or leaves before it has read them.

        A token that expired meanwhile counts as leaving.
        """
        exchange.on_left = None
        if not answer.grants:
            return answer
        if exchange.has_left or exchange.identity.is_over(unix_ms() / 1000):
            self._service.hand_back(request, answer.grants)
            return LEFT
        exchange.on_left = functools.partial(self._service.hand_back, request, answer.grants)
        return answer

    def parse_next(self, url: str, identity: Identity) -> PopRequest:
        """Return a pop that is to follow acks, by its path and query."""
        path, _, query = url.encode().partition(b"?")
        if path != PREFIX and not path.startswith(_QUEUES):
            raise InvalidRequest(
                f"next {url!r:.200} is not a pop; use {_QUEUES.decode()}<queue>?batch=10"
            )
        try:
            request = self._parse(path, query)
        except InvalidRequest as error:
            raise InvalidRequest(f"next is invalid: {error}") from None
        check_queue(identity, request.scope.queue)
        if request.wait_ms is not None:
            raise InvalidRequest(
                f"next {url!r:.200} would hold up the acks; leave wait out, and pop to wait"
            )
        return request

    async def follow(self, exchange: Exchange, request: PopRequest) -> bytes | None:
        """Return the answer to a pop that follows acks, or None when it gets nothing.

        A failed pop must not hide the results of the acks.
        """
        if exchange.has_left:
            return None
        try:
            self._load.admit(_POP)
            answer = self._open(request, await self._pop(exchange, request))
        except QueenError:
            return None
        self._traffic.note_delivery(request, answer.grants)
        return encode_answer(request.consumer_group, answer.grants) if answer.grants else None

    async def _pop(self, exchange: Exchange, request: PopRequest) -> PopAnswer:
        """Pop. Nothing stays leased for a client that leaves meanwhile."""
        if self._maintenance.is_pop:
            served = await self._wait_out(request)
            if served is None or exchange.has_left:
                return PAUSED
            request = served
        await self._subscriptions.ensure(request)
        if exchange.has_left:
            return LEFT
        intention = self._service.submit(request)
        exchange.on_left = functools.partial(self._service.leave, intention)
        answer: PopAnswer = await intention.answer
        return self._take_back(exchange, request, answer)

    async def _wait_out(self, request: PopRequest) -> PopRequest | None:
        """Hold a pop that may wait until pops are served again, or None when its time is up."""
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
    """Return the answer around messages that the database has already put into JSON."""
    first = grants[0]
    return "".join(
        (
            '{"success":true,"queue":',
            _json_text(first.queue_name or ""),
            ',"partition":',
            _json_text(first.partition_name or ""),
            f',"partitionId":"{first.partition_id}","leaseId":"{first.lease_id}","consumerGroup":',
            _json_text(consumer_group),
            f',"partitionsClaimed":{len(grants)},"leaseExpiresAt":{_lease_end(grants)},"messages":[',
            ",".join([grant.messages or "" for grant in grants]),
            "]}",
        )
    ).encode()


def _lease_end(grants: Sequence[PopGrant]) -> str:
    """Return when the first lease of an answer ends, as JSON."""
    ends = [grant.due_ms for grant in grants if grant.due_ms is not None]
    if not ends:
        return "null"
    end = datetime.fromtimestamp(min(ends) / 1000, UTC)
    return f'"{end.replace(tzinfo=None).isoformat(timespec="milliseconds")}Z"'


def parse_pop(raw_path: bytes, query_string: bytes, *, settings: Settings) -> PopRequest:
    """Return the request that a path and query string ask for."""
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
    lease_seconds = parse_integer(query, "leaseSeconds", 0)
    if not 0 <= lease_seconds <= _LEASE_SECONDS_MAX:
        raise InvalidRequest(
            f"leaseSeconds {lease_seconds} is out of range; use 1 to {_LEASE_SECONDS_MAX}, or 0 for"
            " the leaseTime of the queue"
        )
    return PopRequest(
        scope=scope,
        consumer_group=group,
        batch=batch,
        partitions=1 if scope.partition is not None else partitions,
        is_auto_ack=parse_boolean(query, "autoAck"),
        wait_ms=timeout if parse_boolean(query, "wait") else None,
        subscription=_subscription(group, query, settings.default_subscription_mode),
        lease_seconds=lease_seconds or None,
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
