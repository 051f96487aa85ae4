"""Owns the fluent form: settings of a queue, and the calls that use them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from queenmq import wire
from queenmq.client import calls
from queenmq.client.arguments import check_integer
from queenmq.client.builders import DeadLetterQuery, Operation, Push
from queenmq.client.calls import PopRequest
from queenmq.client.consume.consumption import ConsumeOptions, Consumption, Handler
from queenmq.client.message import Message
from queenmq.client.tracing import current_trace_id
from queenmq.ids import random_uuid

if TYPE_CHECKING:
    from queenmq.client.client import Queen


class Queue:
    """A queue, or all queues of a namespace or task. Methods set something and return it.

    As in the official client, `pop` waits by default.
    """

    def __init__(self, queen: Queen, name: str | None) -> None:
        self._queen = queen
        self._name = name
        self._partition: str | None = None
        self._config: dict[str, Any] = {}
        self._pop: dict[str, Any] = {"wait": True}
        self._consume: dict[str, Any] = {}
        self._auto_ack: bool | None = None
        self._buffer: dict[str, Any] | None = None
        self._type: Any = None

    # The queue itself.

    def namespace(self, name: str) -> Self:
        """Set the namespace of the queue, or to pop from.

        Args:
            name: The namespace.
        """
        self._pop["namespace"] = name
        return self

    def task(self, name: str) -> Self:
        """Set the task of the queue, or to pop from.

        Args:
            name: The task.
        """
        self._pop["task"] = name
        return self

    def config(self, options: Mapping[str, Any]) -> Self:
        """Set options for `create`.

        Args:
            options: Queue options, as lease_time or leaseTime.
        """
        self._config = dict(options)
        return self

    def create(self) -> Operation[wire.QueueConfigured]:
        """Create the queue, or replace all its options."""
        return Operation(
            lambda: self._queen.create_queue(
                self._require_queue_name("create"),
                namespace=self._pop.get("namespace"),
                task=self._pop.get("task"),
                **self._config,
            )
        )

    def delete(self) -> Operation[wire.QueueDeleted]:
        """Delete the queue with all its messages."""
        name = self._require_queue_name("delete")
        return Operation(lambda: self._queen.delete_queue(name))

    # Pushing.

    def partition(self, name: str) -> Self:
        """Push to, or pop from, one partition.

        Args:
            name: The partition.
        """
        self._partition = name
        return self

    def buffer(self, options: Mapping[str, Any]) -> Self:
        """Collect pushes and send several at once.

        Args:
            options: `message_count`, `time_millis`, `max_size`.
        """
        self._buffer = dict(options)
        return self

    def push(self, payload: Any) -> Push:
        """Push when awaited.

        Args:
            payload: One payload or a list of them, as for `Queen.push`.
        """
        options = self._buffer
        # A direct push has its own span, and its trace.
        trace_id = None if options is None else current_trace_id()
        items = calls.push_items(
            self._require_queue_name("push"), payload, partition=self._partition, trace_id=trace_id
        )
        if options is not None:
            # A retry may batch them differently, so each needs its own name.
            calls.name_items(items)
            return Push(items, lambda: self._queen._buffers.add(items, options))
        once = str(random_uuid())
        return Push(items, lambda: self._queen._push_items(items, once=once))

    async def flush_buffer(self) -> None:
        """Push the buffered messages of this queue and partition."""
        name = self._require_queue_name("flush")
        await self._queen._buffers.flush((name, self._partition or "Default"))

    # How to pop and consume.

    def group(self, name: str) -> Self:
        """Pop and consume as a consumer group.

        Args:
            name: The group.
        """
        self._pop["group"] = name
        return self

    def batch(self, size: int) -> Self:
        """Pop several messages at once.

        Args:
            size: Most messages of a pop.
        """
        self._pop["batch"] = max(1, check_integer("batch", size))
        return self

    def partitions(self, n: int) -> Self:
        """Let one pop take messages of several partitions.

        Args:
            n: Most partitions of an answer.
        """
        self._pop["partitions"] = max(1, check_integer("partitions", n))
        return self

    def wait(self, enabled: bool) -> Self:
        """Let a pop wait for messages. That is the default.

        Args:
            enabled: Whether it waits.
        """
        self._pop["wait"] = enabled
        return self

    def timeout_millis(self, millis: int) -> Self:
        """Set how long a pop waits.

        Args:
            millis: Milliseconds.
        """
        self._pop["timeout_ms"] = millis
        return self

    def auto_ack(self, enabled: bool) -> Self:
        """Take no lease with `pop` (at most once), or ack after the handler with `consume`.

        Args:
            enabled: Whether to.
        """
        self._auto_ack = enabled
        return self

    def subscription_mode(self, mode: str) -> Self:
        """Set where a new group starts.

        Args:
            mode: `new` for what is pushed from now on; else at the oldest message.
        """
        self._pop["subscription_mode"] = mode
        return self

    def subscription_from(self, from_: str) -> Self:
        """Set the time at which a new group starts.

        Args:
            from_: A time in ISO 8601, or `now`.
        """
        self._pop["subscription_from"] = from_
        return self

    def type(self, kind: Any) -> Self:
        """Convert payloads to a type.

        Args:
            kind: A Struct, dataclass or other type.
        """
        self._type = kind
        return self

    def concurrency(self, count: int) -> Self:
        """Run several handlers at the same time.

        Args:
            count: How many, each with a batch of its own.
        """
        self._consume["concurrency"] = max(1, check_integer("concurrency", count))
        return self

    def limit(self, count: int | None) -> Self:
        """Stop consuming after a number of messages, over all handlers.

        Args:
            count: How many; None for no limit.
        """
        self._consume["limit"] = count
        return self

    def idle_millis(self, millis: int | None) -> Self:
        """Stop consuming when no message arrives for a while.

        Args:
            millis: How long, in milliseconds; None for never.
        """
        self._consume["idle_ms"] = millis
        return self

    def renew_lease(self, enabled: bool, interval_millis: int | None = None) -> Self:
        """Extend leases while handlers run. That is the default.

        Args:
            enabled: Whether to.
            interval_millis: How often, in milliseconds.
        """
        self._consume["renew_lease"] = enabled
        if interval_millis:
            self._consume["renew_interval_ms"] = interval_millis
        return self

    def each(self) -> Self:
        """Give the handler one message at a time, even of a batch."""
        self._consume["each"] = True
        return self

    async def pop(self) -> list[Message[Any]]:
        """Return messages, or an empty list if there are none."""
        how = {**self._pop, "partition": self._partition, "auto_ack": bool(self._auto_ack)}
        return await self._queen.pop(self._name, type=self._type, **how)

    def consume(
        self,
        handler: Handler | None = None,
        *,
        signal: asyncio.Event | None = None,
        signals: bool = False,
    ) -> Consumption:
        """Handle messages when awaited. Without a handler, iterate over it.

        Args:
            handler: A plain or a coroutine function of a message, or of a list of them.
            signal: Stop when this event is set.
            signals: Stop at SIGINT and SIGTERM.
        """
        request = PopRequest(queue=self._name, partition=self._partition, **self._pop)
        options = ConsumeOptions(
            request=request,
            type=self._type,
            auto_ack=self._auto_ack is not False,
            stop_event=signal,
            signals=signals,
            **self._consume,
        )
        return self._queen._consume(options, handler)

    def dlq(self, consumer_group: str | None = None) -> DeadLetterQuery:
        """Query dead letters.

        Args:
            consumer_group: Only those of this group.
        """
        query = DeadLetterQuery(
            self._queen._transport, self._require_queue_name("dlq"), consumer_group
        )
        return query.partition(self._partition)

    def __repr__(self) -> str:
        known = {"partition": self._partition, **self._pop, **self._consume}
        del known["wait"]
        shown = [repr(self._name), *(f"{name}={value!r}" for name, value in known.items() if value)]
        return f"<Queue {', '.join(shown)}>"

    def _require_queue_name(self, what: str) -> str:
        if not self._name:
            raise ValueError(f"{what} needs the name of a queue: queen.queue('orders')")
        return self._name
