"""POST /api/v1/transaction and POST /api/v1/lease/:leaseId/extend."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.auth.decision import check_verb
from queenmq.auth.identity import Identity, Verb
from queenmq.engine.ack.leases import LeaseService
from queenmq.engine.requests import AckItem, PushItems, PushOutcome, TransactionOutcome
from queenmq.engine.transactions import TransactionService
from queenmq.errors import InvalidRequest, LeaseLost, NotFound, TransactionRefused
from queenmq.ids import parse_uuid, random_uuid
from queenmq.server.answers.responses import json_answer, read_request
from queenmq.server.auth.callers import identity_of
from queenmq.server.auth.reach import Reachable
from queenmq.server.requests.checks import check_count, check_group, check_name, shown
from queenmq.server.requests.times import iso
from queenmq.server.requests.transaction_key import transaction_items
from queenmq.server.routes.hot.ack import NO_SUCH_LEASE, to_ack_item
from queenmq.server.routes.hot.push import to_push_items
from queenmq.server.routing.spec import route
from queenmq.settings import Settings


class TransactionRoutes:
    """What commits or extends as a whole."""

    def __init__(
        self,
        service: TransactionService,
        leases: LeaseService,
        settings: Settings,
        reachable: Reachable,
    ) -> None:
        self._reachable = reachable
        self._service = service
        self._leases = leases
        self._settings = settings

    @route(
        "POST",
        "/api/v1/transaction",
        wire.TransactionAnswer,
        request=wire.TransactionRequest,
    )
    async def transaction(self, request: Request) -> Response:
        """Run the operations; a refusal is an answer, not an HTTP error."""
        body = await read_request(request, wire.TransactionRequest)
        if not body.operations:
            raise InvalidRequest("operations must not be empty; give at least one push or ack")
        check_count("operations", len(body.operations), count_max=self._settings.max_items)
        key = body.idempotency_key
        if key is not None:
            check_name("idempotencyKey", key, length_max=self._settings.max_name_length)
        transaction_id = str(random_uuid())
        try:
            identity = identity_of(request)
            plan = Plan(body, self._settings, identity)
            leases = [parse_uuid(lease) or NO_SUCH_LEASE for lease in body.required_leases or ()]
            acks = await self._reachable.hide_acks(identity, plan.acks)
            leases = await self._reachable.hide_leases(identity, leases)
            items = transaction_items(plan.items, acks, leases, key, identity.subject)
            # The same for each try.
            transaction_id = str(items.key or transaction_id)
            outcome = await self._service.run(items)
        except TransactionRefused as error:
            return json_answer(
                wire.TransactionAnswer(
                    transaction_id=transaction_id, success=False, error=str(error), results=[]
                )
            )
        return json_answer(
            wire.TransactionAnswer(
                transaction_id=transaction_id, success=True, results=plan.results(outcome)
            )
        )

    @route(
        "POST",
        "/api/v1/lease/{lease_id:name}/extend",
        wire.LeaseExtended,
        request=wire.RenewRequest,
        needs_body=False,
    )
    async def extend(self, request: Request) -> Response:
        """Extend a lease. The answer has the expiry under all names that clients look for."""
        body = await read_request(request, wire.RenewRequest, default=wire.RenewRequest())
        text = request.path_params["lease_id"]
        lease_id = parse_uuid(text)
        if lease_id is None:
            raise NotFound(
                f"Lease not found: {shown(text)} is not a lease id that this server gave"
            )
        renewal = await self._leases.renew(lease_id, seconds=body.seconds)
        if renewal.expires_at is None:
            if renewal.was_known:
                raise LeaseLost(f"Lease already expired: {text} is not live any more; pop again")
            raise NotFound(
                f"Lease not found: {text} was completed, taken over or never given; pop again"
            )
        expires_at = iso(renewal.expires_at)
        return json_answer(
            wire.LeaseExtended(
                success=True,
                lease_id=text,
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
                    f"Unknown operation type {shown(operation.type)} in {field}"
                )
        if pushes:
            check_verb(identity, Verb.PUSH)
        if self.acks:
            check_verb(identity, Verb.POP)
        self.items: PushItems = to_push_items(pushes, settings, identity)

    def results(
        self, outcome: TransactionOutcome
    ) -> list[wire.TransactionPush | wire.TransactionAck]:
        """One result per pushed item and ack, in request order."""
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
        if pushed.outcomes[place] == "b":
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
