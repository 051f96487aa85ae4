"""Owns transactions: pushes and acks that happen together or not at all."""

from __future__ import annotations

from typing import Any, Self

from queenmq.client.calls import ack_item, group_of, lease_ids, push_items
from queenmq.client.errors import TransactionFailed
from queenmq.client.http.transport import Transport
from queenmq.client.tracing import current_trace_id
from queenmq.ids import random_uuid

PATH = "/api/v1/transaction"


class Transaction:
    """Collects operations until `commit`; as a context manager it commits at a good end."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._operations: list[dict[str, Any]] = []
        self._leases: dict[str, None] = {}
        #: By this the server knows a commit that is sent again after its answer was lost.
        self._key = str(random_uuid())

    def queue(self, queue_name: str) -> TransactionQueue:
        """Where to push."""
        return TransactionQueue(self, queue_name)

    def push(self, queue: str, payloads: Any, *, partition: str | None = None) -> Self:
        """Add a push."""
        many = payloads if isinstance(payloads, list | tuple) else [payloads]
        items = push_items(queue, many, partition=partition, trace_id=current_trace_id())
        self._operations.append({"type": "push", "items": items})
        return self

    def ack(
        self,
        messages: Any,
        status: bool | str = True,
        context: dict[str, Any] | None = None,
        *,
        group: str | None = None,
        error: str | None = None,
    ) -> Self:
        """Add acks. `failed` is a dead letter at once: a transaction redelivers nothing."""
        given = context or {}
        group = group or given.get("consumer_group") or given.get("group")
        for message in messages if isinstance(messages, list | tuple) else [messages]:
            item = ack_item(message, status, error or given.get("error"))
            # The lease is required of the transaction as a whole, see below.
            lease_id = item.pop("leaseId", None)
            self._operations.append(
                {"type": "ack", **item, "consumerGroup": group or group_of(message)}
            )
            if lease_id:
                self._leases[lease_id] = None
        return self

    def require(self, messages: Any) -> Self:
        """Refuse the transaction if the lease of one of these messages was lost."""
        self._leases.update(dict.fromkeys(lease_ids(messages)))
        return self

    async def commit(self) -> dict[str, Any]:
        """Carry it out; raises TransactionFailed if the server refuses. Twice is once."""
        if not self._operations:
            raise ValueError("the transaction is empty: push or ack something before the commit")
        body = {
            "operations": self._operations,
            "requiredLeases": list(self._leases),
            "idempotencyKey": self._key,
        }
        answer = await self._transport.request("POST", PATH, self._transport.codec.encode(body))
        result: dict[str, Any] = self._transport.read(answer, dict[str, Any], f"POST {PATH}")
        if result.get("success"):
            return result
        reason = str(result.get("error") or "no reason given")
        raise TransactionFailed(reason, is_uncertain=answer.is_repeated)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None and self._operations:
            await self.commit()


class TransactionQueue:
    """A queue to push to in a transaction."""

    def __init__(self, transaction: Transaction, queue: str) -> None:
        self._transaction = transaction
        self._queue = queue
        self._partition: str | None = None

    def partition(self, partition_key: str) -> Self:
        self._partition = partition_key
        return self

    def push(self, items: Any) -> Transaction:
        return self._transaction.push(self._queue, items, partition=self._partition)
