"""POST /api/v1/transaction and POST /api/v1/lease/:leaseId/extend."""

from __future__ import annotations

import asyncio
import functools
from uuid import UUID

from queenmq import wire
from queenmq.auth.decision import check_verb
from queenmq.auth.identity import Identity, Verb
from queenmq.engine.ack.leases import LeaseService
from queenmq.engine.outcomes import ItemOutcome
from queenmq.engine.requests import AckItem, PushItems, PushOutcome, Renewal, TransactionOutcome
from queenmq.engine.transactions import TransactionService
from queenmq.errors import InvalidRequest, LeaseLost, NotFound, TransactionRefused
from queenmq.ids import parse_uuid, random_uuid
from queenmq.server.auth.reach import Reachable
from queenmq.server.edge.exchange import Exchange
from queenmq.server.metering.traffic import Traffic
from queenmq.server.requests.acks import NO_SUCH_LEASE, to_ack_item
from queenmq.server.requests.checks import check_count, check_group, check_name, quote
from queenmq.server.requests.queries import parse_path
from queenmq.server.requests.times import iso
from queenmq.server.requests.transaction_key import transaction_items
from queenmq.server.routes.hot.push import to_push_items
from queenmq.server.routing.spec import route
from queenmq.settings import Settings

#: The route whose path names a lease.
EXTEND_PATH = "/api/v1/lease/{lease_id:name}/extend"
_LEASES = b"/api/v1/lease/"
_EXTEND = b"/extend"


class TransactionRoutes:
    """Routes of transactions and lease extensions."""

    def __init__(
        self,
        service: TransactionService,
        leases: LeaseService,
        settings: Settings,
        reachable: Reachable,
        traffic: Traffic,
    ) -> None:
        self._reachable = reachable
        self._traffic = traffic
        self._service = service
        self._leases = leases
        self._settings = settings

    @route(
        "POST",
        "/api/v1/transaction",
        wire.TransactionAnswer,
        request=wire.TransactionRequest,
        is_hot=True,
    )
    def transaction(self, exchange: Exchange) -> None:
        """Run the operations; a refusal is an answer, not an HTTP error."""
        body = wire.decode(exchange.body, wire.TransactionRequest)
        if not body.operations:
            raise InvalidRequest("operations must not be empty; give at least one push or ack")
        check_count("operations", len(body.operations), count_max=self._settings.max_items)
        key = body.idempotency_key
        if key is not None:
            check_name("idempotencyKey", key, length_max=self._settings.max_name_length)
        try:
            plan = Plan(body, self._settings, exchange.identity)
            leases = [parse_uuid(lease) or NO_SUCH_LEASE for lease in body.required_leases or ()]
        except TransactionRefused as error:
            _refuse(exchange, str(random_uuid()), error)
            return
        if exchange.identity.is_limited:
            exchange.run(self._run_within(exchange, plan, leases, key))
        else:
            self._run(exchange, plan, leases, key)

    async def _run_within(
        self, exchange: Exchange, plan: Plan, leases: list[UUID], key: str | None
    ) -> None:
        """Run the transaction of a caller limited to queues. Other queues do not exist for it."""
        plan.acks = await self._reachable.hide_acks(exchange.identity, plan.acks)
        leases = await self._reachable.hide_leases(exchange.identity, leases)
        self._run(exchange, plan, leases, key)

    def _run(self, exchange: Exchange, plan: Plan, leases: list[UUID], key: str | None) -> None:
        transaction_id = str(random_uuid())
        try:
            items = transaction_items(
                plan.items, plan.acks, leases, key, exchange.identity.key_owner
            )
        except TransactionRefused as error:
            _refuse(exchange, transaction_id, error)
            return
        # The same for each try.
        transaction_id = str(items.key or transaction_id)
        self._service.submit(items).add_done_callback(
            functools.partial(self._answer_committed, exchange, plan, transaction_id)
        )

    def _answer_committed(
        self,
        exchange: Exchange,
        plan: Plan,
        transaction_id: str,
        future: asyncio.Future[TransactionOutcome],
    ) -> None:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, TransactionRefused):
            _refuse(exchange, transaction_id, error)
            return

        def answer(outcome: TransactionOutcome) -> None:
            if not outcome.is_repeat:
                self._traffic.note_committed_pushes(plan.items, outcome.pushed.outcomes)
                self._traffic.note_committed_acks(plan.acks, outcome.is_dlq)
            body = wire.TransactionAnswer(
                transaction_id=transaction_id, success=True, results=plan.results(outcome)
            )
            exchange.answer(200, wire.encode(body))

        exchange.complete(answer, future)

    @route(
        "POST",
        EXTEND_PATH,
        wire.LeaseExtended,
        request=wire.RenewRequest,
        needs_body=False,
        is_hot=True,
    )
    def extend(self, exchange: Exchange) -> None:
        """Extend a lease. The answer has the expiry under all names that clients look for."""
        text = parse_path(exchange.head.path[len(_LEASES) : -len(_EXTEND)])
        request = (
            wire.decode(exchange.body, wire.RenewRequest) if exchange.body else wire.RenewRequest()
        )
        lease_id = parse_uuid(text)
        if lease_id is None:
            raise NotFound(
                f"Lease not found: {quote(text)} is not a lease id that this server gave"
            )
        if exchange.identity.is_limited:
            exchange.run(self._extend_within(exchange, lease_id, request.seconds))
        else:
            self._extend(exchange, lease_id, request.seconds)

    async def _extend_within(self, exchange: Exchange, lease_id: UUID, seconds: int) -> None:
        """Extend a lease for a caller that is limited to queues."""
        if not await self._reachable.has_lease(exchange.identity, lease_id):
            raise _make_unknown_lease(lease_id)
        self._extend(exchange, lease_id, seconds)

    def _extend(self, exchange: Exchange, lease_id: UUID, seconds: int) -> None:
        exchange.follow(
            self._leases.renew(lease_id, seconds=seconds),
            lambda renewal: exchange.answer(200, _encode_extended(lease_id, renewal)),
        )


def is_extension(path: bytes) -> bool:
    """Return whether the path names a lease to extend."""
    return (
        path.startswith(_LEASES)
        and path.endswith(_EXTEND)
        and len(path) > len(_LEASES) + len(_EXTEND)
    )


def _refuse(exchange: Exchange, transaction_id: str, error: TransactionRefused) -> None:
    answer = wire.TransactionAnswer(
        transaction_id=transaction_id, success=False, error=str(error), results=[]
    )
    exchange.answer(200, wire.encode(answer))


def _make_unknown_lease(lease_id: UUID) -> NotFound:
    return NotFound(
        f"Lease not found: {lease_id} was completed, taken over or never given; pop again"
    )


def _encode_extended(lease_id: UUID, renewal: Renewal) -> bytes:
    if renewal.expires_at is None:
        if renewal.was_known:
            raise LeaseLost(f"Lease already expired: {lease_id} is not live any more; pop again")
        raise _make_unknown_lease(lease_id)
    expires_at = iso(renewal.expires_at)
    return wire.encode(
        wire.LeaseExtended(
            success=True,
            lease_id=str(lease_id),
            new_expires_at=expires_at,
            lease_expires_at=expires_at,
            expires_at=expires_at,
        )
    )


class Plan:
    """The operations of a request, sorted into pushes and acks, with the way back to order."""

    def __init__(
        self, body: wire.TransactionRequest, settings: Settings, identity: Identity
    ) -> None:
        pushes: list[wire.PushItem] = []
        self.acks: list[AckItem] = []
        self._order: list[tuple[str, int]] = []
        for place, operation in enumerate(body.operations):
            field = f"operations[{place}]"
            if operation.type == "push":
                if not operation.items:
                    raise InvalidRequest(f"{field}.items must hold at least one message to push")
                for item in operation.items:
                    self._order.append(("push", len(pushes)))
                    pushes.append(item)
            elif operation.type == "ack":
                self._order.append(("ack", len(self.acks)))
                self.acks.append(_to_ack(field, operation, settings.max_name_length))
            else:
                raise TransactionRefused(
                    f"Unknown operation type {quote(operation.type)} in {field}"
                )
        if pushes:
            check_verb(identity, Verb.PUSH)
        if self.acks:
            check_verb(identity, Verb.POP)
        self.items: PushItems = to_push_items(pushes, settings, identity)

    def results(
        self, outcome: TransactionOutcome
    ) -> list[wire.TransactionPush | wire.TransactionAck]:
        """Return one result per pushed item and ack, in request order."""
        results: list[wire.TransactionPush | wire.TransactionAck] = []
        for index, (kind, place) in enumerate(self._order):
            if kind == "ack":
                ack = self.acks[place]
                results.append(
                    wire.TransactionAck(
                        index, True, ack.transaction_id, None, outcome.is_dlq[place]
                    )
                )
                continue
            results.append(self._push_result(index, place, outcome.pushed))
        return results

    def _push_result(self, index: int, place: int, pushed: PushOutcome) -> wire.TransactionPush:
        ref, message_id = pushed.refs[place], pushed.message_ids[place]
        given = self.items.transaction_ids[place] if self.items.transaction_ids else None
        queue, partition_id = ref.key.queue, ref.id_text
        if pushed.outcomes[place] is ItemOutcome.QUEUED_IN_ORDER:
            return wire.TransactionPush(
                index, True, given, None, partition_id, queue, operation_id=message_id
            )
        return wire.TransactionPush(
            index, True, given or message_id, message_id, partition_id, queue
        )


def _to_ack(field: str, operation: wire.TransactionOperation, length_max: int) -> AckItem:
    if operation.transaction_id is None or operation.partition_id is None:
        raise InvalidRequest(
            f"{field} needs transactionId and partitionId; copy them from the message"
        )
    item = wire.AckItem(
        transaction_id=operation.transaction_id,
        partition_id=operation.partition_id,
        lease_id=operation.lease_id,
        status=operation.status,
        error=operation.error,
    )
    group = check_group(operation.consumer_group, length_max=length_max)
    return to_ack_item(item, group, length_max=length_max)
