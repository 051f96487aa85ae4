"""POST /api/v1/ack and /api/v1/ack/batch."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from queenmq import wire
from queenmq.engine.ack.service import AckService
from queenmq.engine.load.manager import LoadManager
from queenmq.engine.load.pressure import OperationType
from queenmq.engine.requests import AckItem, AckResult, PopRequest
from queenmq.errors import InvalidRequest
from queenmq.ids import parse_uuid
from queenmq.server.auth.reach import Reachable
from queenmq.server.edge.exchange import Exchange
from queenmq.server.metering.traffic import Traffic
from queenmq.server.requests.checks import (
    check_count,
    check_group,
    check_name,
    check_text,
    check_uuid,
)
from queenmq.server.routes.hot.pop import PopRoute
from queenmq.server.routing.spec import route
from queenmq.settings import Settings

#: Stands for a lease id that is not even a UUID: given, and certainly not the live one.
NO_SUCH_LEASE = UUID(int=0)


def to_ack_item(item: wire.AckItem, consumer_group: str, *, length_max: int) -> AckItem:
    """One checked ack."""
    return AckItem(
        partition_id=check_uuid("partitionId", item.partition_id),
        consumer_group=consumer_group,
        transaction_id=check_name("transactionId", item.transaction_id, length_max=length_max),
        lease_id=(parse_uuid(item.lease_id) or NO_SUCH_LEASE) if item.lease_id else None,
        status=check_text("status", item.status) or "completed",
        error=check_text("error", item.error),
    )


def _encode(items: Sequence[AckItem], results: Sequence[AckResult]) -> bytes:
    return wire.encode(
        [
            wire.AckResult(
                index, item.transaction_id, result.success, result.error, result.queue_name,
                result.partition_name, result.lease_released, result.dlq,
            )
            for index, (item, result) in enumerate(zip(items, results, strict=True))
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
        self._load.admit(OperationType.ACK_SINGLE)
        request = wire.decode(exchange.body, wire.AckRequest)
        length_max = self._settings.max_name_length
        group = check_group(request.consumer_group, length_max=length_max)
        items = [to_ack_item(request, group, length_max=length_max)]
        if exchange.identity.is_limited:
            exchange.run(self._within_reach(exchange, items))
            return
        exchange.follow(
            self._service.ack(items), lambda results: self._answer(exchange, items, results)
        )

    @route(
        "POST",
        "/api/v1/ack/batch",
        list[wire.AckResult] | wire.AckedAndPopped,
        request=wire.AckBatchRequest,
        is_hot=True,
    )
    def batch(self, exchange: Exchange) -> None:
        """Ack many messages of one group, and pop what comes after them if that is asked."""
        self._load.admit(OperationType.ACK_BATCH)
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
        items = [to_ack_item(one, group, length_max=length_max) for one in request.acknowledgments]
        if request.next is not None:
            following = self._pops.parse_next(request.next, exchange.identity)
            exchange.run(self._with_next(exchange, items, following))
            return
        if exchange.identity.is_limited:
            exchange.run(self._within_reach(exchange, items))
            return
        exchange.follow(
            self._service.ack(items), lambda results: self._answer(exchange, items, results)
        )

    def _answer(
        self, exchange: Exchange, items: Sequence[AckItem], results: Sequence[AckResult]
    ) -> None:
        self._traffic.acked(items, results)
        exchange.answer(200, _encode(items, results))

    async def _within_reach(self, exchange: Exchange, items: Sequence[AckItem]) -> None:
        """Ack for a caller that is limited to some queues."""
        items = await self._reachable.hide_acks(exchange.identity, items)
        self._answer(exchange, items, await self._service.ack(items))

    async def _with_next(
        self, exchange: Exchange, items: Sequence[AckItem], following: PopRequest
    ) -> None:
        items = await self._reachable.hide_acks(exchange.identity, items)
        results = await self._service.ack(items)
        self._traffic.acked(items, results)
        popped = None
        if any(one.lease_released and one.has_more for one in results):
            popped = await self._pops.follow(exchange, following)
        exchange.answer(
            200, b'{"results":%b,"next":%b}' % (_encode(items, results), popped or b"null")
        )
