"""Owns transactions: pushes and acks that happen together or not at all."""

from __future__ import annotations

from typing import Any, Self

from queenmq import wire
from queenmq.client.calls import ack_item, group_of, lease_ids, name_items, push_items
from queenmq.client.errors import TransactionFailed
from queenmq.client.http.transport import Transport
from queenmq.client.tracing import current_trace_id
from queenmq.ids import random_uuid

PATH = "/api/v1/transaction"


class Transaction:
    """Collects operations until `commit`. A `with` block commits unless it raises."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._operations: list[dict[str, Any]] = []
        self._leases: dict[str, None] = {}
        #: The server recognises a repeated commit by it.
        self._key = str(random_uuid())

    def queue(self, queue_name: str) -> TransactionQueue:
        """Choose the queue to push to.

        Args:
            queue_name: The queue.
        """
        return TransactionQueue(self, queue_name)

    def push(self, queue: str, payloads: Any, *, partition: str | None = None) -> Self:
        """Add a push.

        Args:
            queue: The queue.
            payloads: One payload, or a list of them.
            partition: The partition; by default `Default`.
        """
        many = payloads if isinstance(payloads, list | tuple) else [payloads]
        trace_id = current_trace_id()
        items = name_items(push_items(queue, many, partition=partition, trace_id=trace_id))
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
        """Add acks. `failed` is a dead letter at once: a transaction redelivers nothing.

        Args:
            messages: A message or a list of them.
            status: True or `completed`, False or `failed`, or `dlq`.
            context: `{"group": ..., "error": ...}`, as the official client takes them.
            group: The group to ack for; by default the one that popped the message.
            error: Why handling failed; kept with the dead letter.
        """
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
        """Refuse the transaction if the lease of one of these messages was lost.

        Args:
            messages: A message, a lease id, or a list of them.
        """
        self._leases.update(dict.fromkeys(lease_ids(messages)))
        return self

    async def commit(self) -> wire.TransactionAnswer:
        """Commit. Raises TransactionFailed if the server refuses. A repeat has no more effect."""
        if not self._operations:
            raise ValueError("the transaction is empty: push or ack something before the commit")
        body = {
            "operations": self._operations,
            "requiredLeases": list(self._leases),
            "idempotencyKey": self._key,
        }
        data = self._transport.codec.encode_payloads(body)
        answer = await self._transport.request("POST", PATH, data)
        result: wire.TransactionAnswer = self._transport.read(
            answer, wire.TransactionAnswer, f"POST {PATH}"
        )
        if result.success:
            return result
        reason = result.error or "no reason given"
        raise TransactionFailed(reason, is_uncertain=answer.is_repeated)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None and self._operations:
            await self.commit()

    def __repr__(self) -> str:
        pushes = sum(one["type"] == "push" for one in self._operations)
        return f"<Transaction of {pushes} pushes and {len(self._operations) - pushes} acks>"


class TransactionQueue:
    """A queue to push to in a transaction."""

    def __init__(self, transaction: Transaction, queue: str) -> None:
        self._transaction = transaction
        self._queue = queue
        self._partition: str | None = None

    def partition(self, partition_key: str) -> Self:
        """Choose the partition to push to.

        Args:
            partition_key: The partition.
        """
        self._partition = partition_key
        return self

    def push(self, items: Any) -> Transaction:
        """Add a push to the transaction.

        Args:
            items: One payload, or a list of them.
        """
        return self._transaction.push(self._queue, items, partition=self._partition)
