"""Owns the fluent form for plain threads: the same builders, whose last call waits."""

from __future__ import annotations

from typing import Any, Self

from queenmq import wire
from queenmq.client.builders import DeadLetterQuery, PushOutcome
from queenmq.client.consume.consumption import Handler
from queenmq.client.queue import Queue
from queenmq.client.sync.consumption import SyncConsumption, run_on_thread
from queenmq.client.sync.waiting import Waiter, chain_method, wait_for_method
from queenmq.client.transaction import Transaction, TransactionQueue


class SyncDeadLetterQuery(Waiter[DeadLetterQuery]):
    """Asks for dead letters; see DeadLetterQuery."""

    limit = chain_method(DeadLetterQuery.limit)
    offset = chain_method(DeadLetterQuery.offset)
    partition = chain_method(DeadLetterQuery.partition)
    from_ = chain_method(DeadLetterQuery.from_)
    to = chain_method(DeadLetterQuery.to)
    get = wait_for_method(DeadLetterQuery.get)


class SyncQueue(Waiter[Queue]):
    """A queue, or all queues of a namespace or task; see Queue for what the calls do."""

    namespace = chain_method(Queue.namespace)
    task = chain_method(Queue.task)
    config = chain_method(Queue.config)
    partition = chain_method(Queue.partition)
    buffer = chain_method(Queue.buffer)
    group = chain_method(Queue.group)
    batch = chain_method(Queue.batch)
    partitions = chain_method(Queue.partitions)
    wait = chain_method(Queue.wait)
    timeout_millis = chain_method(Queue.timeout_millis)
    auto_ack = chain_method(Queue.auto_ack)
    subscription_mode = chain_method(Queue.subscription_mode)
    subscription_from = chain_method(Queue.subscription_from)
    type = chain_method(Queue.type)
    concurrency = chain_method(Queue.concurrency)
    limit = chain_method(Queue.limit)
    idle_millis = chain_method(Queue.idle_millis)
    renew_lease = chain_method(Queue.renew_lease)
    each = chain_method(Queue.each)

    flush_buffer = wait_for_method(Queue.flush_buffer)
    pop = wait_for_method(Queue.pop)

    def create(self) -> wire.QueueConfigured:
        """Create the queue, or replace all its options."""
        return self._thread.call(self._target.create())

    def delete(self) -> wire.QueueDeleted:
        """Remove the queue and all that is in it."""
        return self._thread.call(self._target.delete())

    def push(self, payload: Any) -> PushOutcome:
        """Push and wait for the results.

        Args:
            payload: One payload or a list of them, as for `Queen.push`.
        """
        return self._thread.call(self._target.push(payload))

    def consume(self, handler: Handler | None = None, *, signals: bool = False) -> SyncConsumption:
        """Handle messages: `run()` it, use it as a context manager, or iterate over it.

        Args:
            handler: A plain function of a message, or of a list of them; it runs on a thread.
            signals: Stop at SIGINT and SIGTERM.
        """
        consumption = self._target.consume(run_on_thread(handler))
        return SyncConsumption(self._thread, consumption, signals=signals)

    def dlq(self, consumer_group: str | None = None) -> SyncDeadLetterQuery:
        """Ask for dead letters.

        Args:
            consumer_group: Only those of this group.
        """
        return SyncDeadLetterQuery(self._thread, self._target.dlq(consumer_group))


class SyncTransaction(Waiter[Transaction]):
    """Collects operations until `commit`; as a context manager it commits at a good end."""

    push = chain_method(Transaction.push)
    ack = chain_method(Transaction.ack)
    require = chain_method(Transaction.require)
    commit = wait_for_method(Transaction.commit)

    def queue(self, queue_name: str) -> SyncTransactionQueue:
        """Say where to push.

        Args:
            queue_name: The queue.
        """
        return SyncTransactionQueue(self, self._target.queue(queue_name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self._thread.call(self._target.__aexit__(kind, error, traceback))


class SyncTransactionQueue:
    """A queue to push to in a transaction."""

    def __init__(self, transaction: SyncTransaction, target: TransactionQueue) -> None:
        self._transaction = transaction
        self._target = target

    partition = chain_method(TransactionQueue.partition)

    def push(self, items: Any) -> SyncTransaction:
        """Add a push to the transaction.

        Args:
            items: One payload, or a list of them.
        """
        self._target.push(items)
        return self._transaction
