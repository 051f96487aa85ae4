"""POST /api/v1/ack and /api/v1/ack/batch."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from queenmq import wire
from queenmq.engine.ack_service import AckService
from queenmq.engine.load import OperationType
from queenmq.engine.load_manager import LoadManager
from queenmq.engine.operation import AckItem, AckResult
from queenmq.errors import InvalidRequest
from queenmq.ids import parse_uuid
from queenmq.server.asgi import Receive, Scope, Send, read_body, send_json
from queenmq.server.checks import check_count, check_group, check_name, check_text, check_uuid
from queenmq.server.routes.pop import PopRoute
from queenmq.settings import Settings

#: Stands for a lease id that is not even a UUID: given, and certainly not the live one.
NO_SUCH_LEASE = UUID(int=0)


def to_ack_item(item: wire.AckItem, consumer_group: str, *, length_max: int) -> AckItem:
    """One checked ack."""
    return AckItem(
        partition_id=check_uuid("partitionId", item.partitionId),
        consumer_group=consumer_group,
        transaction_id=check_name("transactionId", item.transactionId, length_max=length_max),
        lease_id=(parse_uuid(item.leaseId) or NO_SUCH_LEASE) if item.leaseId else None,
        status=check_text("status", item.status) or "completed",
        error=check_text("error", item.error),
    )


def _encode(items: Sequence[AckItem], results: Sequence[AckResult]) -> bytes:
    return wire.encode(
        [
            wire.AckAnswer(
                index, item.transaction_id, result.success, result.error, result.queue_name,
                result.partition_name, result.lease_released, result.dlq,
            )
            for index, (item, result) in enumerate(zip(items, results, strict=True))
        ]
    )  # fmt: skip


class AckRoute:
    """Both handlers, as bare ASGI."""

    def __init__(
        self, service: AckService, pops: PopRoute, load: LoadManager, settings: Settings
    ) -> None:
        self._service = service
        self._pops = pops
        self._load = load
        self._settings = settings

    async def one(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Settle one message; the answer is an array of one."""
        body = await read_body(scope, receive, limit=self._settings.max_body_bytes)
        self._load.admit(OperationType.ACK_SINGLE)
        request = wire.decode(body, wire.AckRequest)
        length_max = self._settings.max_name_length
        group = check_group(request.consumerGroup, length_max=length_max)
        items = [to_ack_item(request, group, length_max=length_max)]
        await send_json(send, 200, _encode(items, await self._service.ack(items)))

    async def batch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Settle many messages of one group, and pop what comes after them if that is asked."""
        body = await read_body(scope, receive, limit=self._settings.max_body_bytes)
        self._load.admit(OperationType.ACK_BATCH)
        try:
            request = wire.decode(body, wire.AckBatchRequest)
        except InvalidRequest as error:
            if str(error).startswith("acknowledgments "):
                raise InvalidRequest(f"acknowledgments array is required: {error}") from None
            raise
        check_count(
            "acknowledgments", len(request.acknowledgments), count_max=self._settings.max_items
        )
        length_max = self._settings.max_name_length
        group = check_group(request.consumerGroup, length_max=length_max)
        items = [to_ack_item(one, group, length_max=length_max) for one in request.acknowledgments]
        following = None if request.next is None else self._pops.parse_next(request.next)
        results = await self._service.ack(items)
        answer = _encode(items, results)
        if following is not None:
            popped = None
            if any(one.lease_released and one.has_more for one in results):
                popped = await self._pops.follow(following, scope, receive)
            answer = b'{"results":%b,"next":%b}' % (answer, popped or b"null")
        await send_json(send, 200, answer)
