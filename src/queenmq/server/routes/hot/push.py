"""POST /api/v1/push: decode, hand to the push service, answer item by item."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence

from queenmq import wire
from queenmq.auth.decision import check_queues
from queenmq.auth.identity import Identity
from queenmq.engine.load.manager import LoadManager
from queenmq.engine.load.pressure import LoadDecision, OperationType
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.push.service import PushService
from queenmq.engine.requests import DEFAULT_PARTITION, PartitionKey, PushItems, PushOutcome
from queenmq.errors import InvalidRequest, RequestTooLarge, StorageUnavailable
from queenmq.server.edge.exchange import Exchange
from queenmq.server.metering.traffic import Traffic
from queenmq.server.requests.checks import check_count, check_name, check_names, check_uuid
from queenmq.server.requests.push_key import given_key, request_key
from queenmq.server.routing.spec import ArrayOf, route
from queenmq.server.tracing.traced_traffic import TracedTraffic
from queenmq.settings import Settings


def to_push_items(
    items: Sequence[wire.PushItem], settings: Settings, identity: Identity
) -> PushItems:
    """Return the items of a request as columns, every value checked.

    The producer is the subject of the token, never a value of the body.
    """
    check_count("items", len(items), count_max=settings.max_items)
    length_max = settings.max_name_length
    keys = [_checked_key(item.queue, item.partition, length_max) for item in items]
    if identity.is_limited:
        check_queues(identity, {key.queue for key in keys})
    names = [item.transaction_id for item in items]
    traces = [item.trace_id for item in items]
    transaction_ids = None
    if names.count(None) < len(names):
        transaction_ids = names
        check_names("transactionId", names, length_max=length_max)
    trace_ids = None
    if traces.count(None) < len(traces):
        trace_ids = [None if one is None else check_uuid("traceId", one) for one in traces]
    subject = identity.subject
    return PushItems(
        keys,
        _payload_texts(items, settings.max_payload_bytes),
        transaction_ids,
        trace_ids,
        None if subject is None else [subject] * len(keys),
    )


# Producers repeat themselves: most pushes go to partitions that were pushed to a moment ago.
@functools.lru_cache(maxsize=16_384)
def _checked_key(queue: str, partition: str | None, length_max: int) -> PartitionKey:
    return PartitionKey(
        check_name("queue", queue, length_max=length_max),
        check_name(
            "partition",
            DEFAULT_PARTITION if partition is None else partition,
            length_max=length_max,
        ),
    )


def _payload_texts(items: Sequence[wire.PushItem], size_max: int) -> list[str]:
    payloads = [bytes(item.payload) for item in items]
    size = max(map(len, payloads), default=0)
    if size > size_max:
        raise RequestTooLarge(
            f"a payload has {size} bytes; use at most {size_max},"
            " or store it elsewhere and push a reference"
        )
    return [payload.decode() for payload in payloads]


#: The reason in the answer for an item that is stored later.
_REASONS = {
    ItemOutcome.QUEUED_IN_ORDER: "maintaining_order",
    ItemOutcome.QUEUED_FOR_LOAD: "system_busy",
    ItemOutcome.SPOOLED: "database_unavailable",
    ItemOutcome.SPOOLED_FOR_MAINTENANCE: "maintenance",
}
_STORED = ItemOutcome.STORED
_PUSH, _QUEUE = OperationType.PUSH, LoadDecision.QUEUE
_SPOOLED = (ItemOutcome.SPOOLED, ItemOutcome.SPOOLED_FOR_MAINTENANCE)


def push_answers(
    items: PushItems, outcome: PushOutcome, wait_s: Callable[[int], int]
) -> list[wire.PushAnswer]:
    """Return one element per item, in item order.

    `wait_s` is the estimated wait of a queued push.
    """
    if items.trace_ids is None and outcome.outcomes.count(_STORED) == len(outcome.outcomes):
        # All stored, as nearly always.
        ids = outcome.message_ids
        names = items.transaction_ids or ids
        return [
            wire.PushQueued(
                index, name or made or "", "queued", made or "", ref.id_text, None, ref.key.queue
            )
            for index, name, made, ref in zip(
                range(len(ids)), names, ids, outcome.refs, strict=True
            )
        ]
    answers: list[wire.PushAnswer] = []
    for index, (message_id, how) in enumerate(
        zip(outcome.message_ids, outcome.outcomes, strict=True)
    ):
        given = items.transaction_ids[index] if items.transaction_ids else None
        if how is not ItemOutcome.STORED and how in _REASONS:
            answers.append(_encode_buffered(index, items, outcome, wait_s))
            continue
        ref = outcome.refs[index]
        queue = ref.key.queue
        if how is ItemOutcome.FULL or message_id is None:
            error = f"queue {queue!r} is full: its maxSize is reached; consume or raise maxSize"
            answers.append(wire.PushRefused(index, given, "failed", error, queue))
            continue
        transaction_id = message_id if given is None else given
        if how is ItemOutcome.DUPLICATE:
            answers.append(
                wire.PushDuplicate(
                    index, transaction_id, "duplicate", message_id, ref.id_text, queue
                )
            )
            continue
        trace = items.trace_ids[index] if items.trace_ids else None
        answers.append(
            wire.PushQueued(
                index, transaction_id, "queued", message_id, ref.id_text,
                None if trace is None else str(trace), queue,
            )
        )  # fmt: skip
    return answers


def _encode_buffered(
    index: int, items: PushItems, outcome: PushOutcome, wait_s: Callable[[int], int]
) -> wire.PushBuffered:
    key, how = items.keys[index], outcome.outcomes[index]
    answer = wire.PushBuffered(
        index,
        "buffered",
        key.queue,
        key.partition,
        items.transaction_ids[index] if items.transaction_ids else None,
        reason=_REASONS[how],
    )
    if how in _SPOOLED:
        # Made when it was kept, if the producer gave none.
        answer.transaction_id = outcome.message_ids[index]
    elif outcome.positions is not None:
        position = outcome.positions[index] or 1
        answer.operation_id = outcome.message_ids[index]
        answer.queue_position = position
        answer.estimated_wait = f"{wait_s(position)}s"
    return answer


#: One element per item, in order.
_RESULTS = ArrayOf((wire.PushQueued, wire.PushDuplicate, wire.PushRefused, wire.PushBuffered))


class PushRoute:
    """The handler. No task: the answer leaves when the call it is part of returns."""

    def __init__(
        self,
        service: PushService,
        load: LoadManager,
        settings: Settings,
        *,
        wait_s: Callable[[int], int],
        traffic: Traffic,
    ) -> None:
        self._traffic = traffic
        #: None unless pushes are traced.
        self._begin = traffic.begin if isinstance(traffic, TracedTraffic) else None
        self._service = service
        self._load = load
        self._wait_s = wait_s
        self._settings = settings

    @route(
        "POST",
        "/api/v1/push",
        _RESULTS,
        status=201,
        request=wire.PushRequest,
        also={202: _RESULTS},
        is_hot=True,
    )
    def __call__(self, exchange: Exchange) -> None:
        """Store messages. Queues and partitions appear on first use."""
        self._push(exchange, needs_key=False)

    @route(
        "POST",
        "/api/v1/push/once",
        _RESULTS,
        status=201,
        request=wire.PushRequest,
        also={202: _RESULTS},
        is_hot=True,
    )
    def once(self, exchange: Exchange) -> None:
        """Store messages as the route above, for a request that has an idempotency key.

        A server that knows no keys knows no such route, so a client can rely on the key.
        """
        self._push(exchange, needs_key=True)

    def _push(self, exchange: Exchange, *, needs_key: bool) -> None:
        # Before decoding, so that a refused request costs little.
        decision = self._load.admit(_PUSH)
        try:
            request = wire.decode(exchange.body, wire.PushRequest)
        except InvalidRequest as error:
            if str(error).startswith("items "):
                raise InvalidRequest(f"items array is required: {error}") from None
            raise
        items = to_push_items(request.items, self._settings, exchange.identity)
        if self._begin is not None:
            items = self._begin(exchange, items)
        key = given_key(
            exchange.head, request.idempotency_key, length_max=self._settings.max_name_length
        )
        if key is not None:
            items.request_key = request_key(key, exchange.body, exchange.identity.key_owner)
        elif needs_key:
            raise InvalidRequest("idempotencyKey is missing; give each request a key of its own")
        pushed = self._service.submit(items, is_queued=decision is _QUEUE)
        pushed.add_done_callback(functools.partial(self._encode_stored, exchange, items))

    def _encode_stored(
        self, exchange: Exchange, items: PushItems, future: asyncio.Future[PushOutcome]
    ) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None and isinstance(error, StorageUnavailable):
            exchange.run(self._rescue(exchange, items, error))
        else:
            exchange.complete(functools.partial(self._answer, exchange, items), future)

    async def _rescue(
        self, exchange: Exchange, items: PushItems, error: StorageUnavailable
    ) -> None:
        self._answer(exchange, items, await self._service.rescue(items, error))

    def _answer(self, exchange: Exchange, items: PushItems, outcome: PushOutcome) -> None:
        if not outcome.is_repeat:
            self._traffic.note_push(items, outcome.outcomes)
        answers = push_answers(items, outcome, self._wait_s)
        exchange.answer(202 if outcome.is_delayed else 201, wire.encode(answers))
