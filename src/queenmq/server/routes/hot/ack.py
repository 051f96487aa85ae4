"""POST /api/v1/ack and /api/v1/ack/batch."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TypeAlias

from queenmq import wire
from queenmq.engine.ack.service import AckService
from queenmq.engine.load.manager import LoadManager
from queenmq.engine.load.pressure import OperationType
from queenmq.engine.requests import AckItem, AckResult, CompletedLease, PopRequest
from queenmq.errors import InvalidRequest
from queenmq.server.auth.reach import Reachable
from queenmq.server.edge.exchange import Exchange
from queenmq.server.metering.traffic import Traffic
from queenmq.server.requests.acks import to_acks
from queenmq.server.requests.checks import check_count, check_group
from queenmq.server.routes.hot.pop import PopRoute
from queenmq.server.routing.spec import route
from queenmq.settings import Settings

_ACK_SINGLE, _ACK_BATCH = OperationType.ACK_SINGLE, OperationType.ACK_BATCH
Acks: TypeAlias = list[CompletedLease] | list[AckItem]


def _encode(ids: Sequence[str], results: Sequence[AckResult]) -> bytes:
    return wire.encode(
        [
            wire.AckResult(
                index, transaction_id, result.success, result.error, result.queue_name,
                result.partition_name, result.lease_released, result.dlq,
            )
            for index, (transaction_id, result) in enumerate(zip(ids, results, strict=True))
        ]
    )  # fmt: skip


class AckRoute:
    """Both handlers. No task, unless messages are to follow the acks."""

    def __init__(
        self,
        service: AckService,
        pops: PopRoute,
        load: LoadManager,
        settings: Settings,
        reachable: Reachable,
        traffic: Traffic,
    ) -> None:
        self._reachable = reachable
        self._traffic = traffic
        self._service = service
        self._pops = pops
        self._load = load
        self._settings = settings

    @route(
        "POST",
        "/api/v1/ack",
        list[wire.AckResult],
        request=wire.AckRequest,
        is_hot=True,
    )
    def one(self, exchange: Exchange) -> None:
        """Ack one message; the answer is an array of one."""
        self._load.admit(_ACK_SINGLE)
        request = wire.decode(exchange.body, wire.AckRequest)
        length_max = self._settings.max_name_length
        group = check_group(request.consumer_group, length_max=length_max)
        acks = to_acks([request], group, length_max=length_max)
        self._settle(exchange, acks, [request.transaction_id])

    @route(
        "POST",
        "/api/v1/ack/batch",
        list[wire.AckResult] | wire.AckedAndPopped,
        request=wire.AckBatchRequest,
        is_hot=True,
    )
    def batch(self, exchange: Exchange) -> None:
        """Ack many messages of one group. Pop the next ones if the request asks for it."""
        self._load.admit(_ACK_BATCH)
        try:
            request = wire.decode(exchange.body, wire.AckBatchRequest)
        except InvalidRequest as error:
            if str(error).startswith("acknowledgments "):
                raise InvalidRequest(f"acknowledgments array is required: {error}") from None
            raise
        check_count(
            "acknowledgments", len(request.acknowledgments), count_max=self._settings.max_items
        )
        length_max = self._settings.max_name_length
        group = check_group(request.consumer_group, length_max=length_max)
        acks = to_acks(request.acknowledgments, group, length_max=length_max)
        ids = [one.transaction_id for one in request.acknowledgments]
        if request.next is None:
            self._settle(exchange, acks, ids)
        else:
            following = self._pops.parse_next(request.next, exchange.identity)
            exchange.run(self._with_next(exchange, acks, ids, following))

    def _settle(self, exchange: Exchange, acks: Acks, ids: Sequence[str]) -> None:
        if exchange.identity.is_limited:
            exchange.run(self._within_reach(exchange, acks, ids))
        else:
            exchange.follow(
                self._service.ack(acks), functools.partial(self._answer, exchange, acks, ids)
            )

    def _answer(
        self, exchange: Exchange, acks: Acks, ids: Sequence[str], results: Sequence[AckResult]
    ) -> None:
        self._traffic.note_acks(acks, results)
        exchange.answer(200, _encode(ids, results))

    async def _within_reach(self, exchange: Exchange, acks: Acks, ids: Sequence[str]) -> None:
        """Ack for a caller that is limited to some queues."""
        acks = await self._reachable.hide_acks(exchange.identity, acks)
        self._answer(exchange, acks, ids, await self._service.ack(acks))

    async def _with_next(
        self, exchange: Exchange, acks: Acks, ids: Sequence[str], following: PopRequest
    ) -> None:
        acks = await self._reachable.hide_acks(exchange.identity, acks)
        results = await self._service.ack(acks)
        self._traffic.note_acks(acks, results)
        popped = None
        if any(one.lease_released and one.has_more for one in results):
            popped = await self._pops.follow(exchange, following)
        exchange.answer(
            200, b'{"results":%b,"next":%b}' % (_encode(ids, results), popped or b"null")
        )
