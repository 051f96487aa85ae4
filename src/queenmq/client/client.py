"""Owns `Queen`, the client: every call in a plain form, and the entry to the fluent form."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Self, TypeVar, Unpack, overload

from queenmq import wire
from queenmq.client import calls
from queenmq.client.admin import Admin
from queenmq.client.arguments import check_function, check_names
from queenmq.client.builders import Buffered, DeadLetterQuery
from queenmq.client.calls import PopKeywords, PopRequest, quote_name
from queenmq.client.consume.ack_client import AckClient, AckResults, Renewal
from queenmq.client.consume.consumption import ConsumeKeywords, ConsumeOptions, Consumption, Handler
from queenmq.client.errors import ClientError, PayloadMismatch, PushFailed
from queenmq.client.http.servers import affinity_key
from queenmq.client.message import DeadLetter, Message, Popped, TraceOutcome, convert_message
from queenmq.client.options import Config, Options, resolve_options, transport_of
from queenmq.client.pipeline import Pipeline
from queenmq.client.push.buffers import BufferKeywords, Buffers, BufferStats
from queenmq.client.push.pushing import Pusher, Results
from queenmq.client.queue import Queue
from queenmq.client.streams.runner import Runner
from queenmq.client.streams.stream import Stream
from queenmq.client.tracing import current_trace_id, push_span
from queenmq.client.transaction import Transaction

T = TypeVar("T")

#: A popped message, or a mapping with its ids.
One = Mapping[str, Any] | Message[Any]
#: Several of them.
Many = list[Message[Any]] | list[dict[str, Any]] | tuple[One, ...]
#: Seconds that an answer may take beyond the time of its long poll.
_POLL_MARGIN_S = 5.0


class Queen:
    """A client of one or several Queen servers.

    It opens connections on demand, in the event loop of the caller. Close it, or use it
    as `async with Queen("http://localhost:6632") as queen`.

    Args:
        config: A URL, a list of URLs, or a mapping of options.
        options: See `Options`; docs/client.md has a table of them.
    """

    def __init__(self, config: Config = None, **options: Unpack[Options]) -> None:
        self._options = resolve_options(config, options)
        self._transport = transport_of(self._options)
        self._pusher = Pusher(self._transport, self._options)
        self._ack_client = AckClient(self, self._transport)
        self._buffers = Buffers(
            self._pusher,
            self._transport,
            self._options["on_buffer_error"],
            self._options["buffered_max"],
        )
        self._consumptions: set[Consumption | Runner] = set()
        #: Calls for operators.
        self.admin = Admin(self._transport)
        #: Results of jobs on Spark.
        self.pipeline = Pipeline(self._transport)

    # Queues.

    def queue(self, name: str | None = None) -> Queue:
        """Return the fluent form of all calls about a queue.

        Args:
            name: The queue; leave it out to pop by namespace or task.
        """
        return Queue(self, name)

    async def create_queue(
        self,
        name: str,
        /,
        *,
        namespace: str | None = None,
        task: str | None = None,
        **options: Any,
    ) -> wire.QueueConfigured:
        """Create a queue, or replace all its options. Options left out get their defaults.

        Args:
            name: The queue.
            namespace: For pops by namespace.
            task: For pops by task.
            options: Queue options, such as `lease_time=60`; docs/api.md lists them.
        """
        body = {
            "queue": name,
            "namespace": namespace,
            "task": task,
            "options": calls.camel_options(options),
        }
        return await self._transport.fetch("POST", "/api/v1/configure", wire.QueueConfigured, body)

    async def delete_queue(self, name: str) -> wire.QueueDeleted:
        """Delete a queue with all its messages. `existed` of the answer says whether there was one.

        Args:
            name: The queue.
        """
        path = f"/api/v1/resources/queues/{quote_name(name)}"
        return await self._transport.fetch("DELETE", path, wire.QueueDeleted)

    def stream(self, queue: str) -> Stream:
        """Start building a stream over a queue: windows, aggregations and gates, exactly once.

        Args:
            queue: The queue that the stream reads.
        """
        return Stream(queue, queen=self)

    # Messages.

    async def push(
        self, queue: str, payloads: Any, *, partition: str | None = None
    ) -> list[wire.PushResult]:
        """Push one payload, or a list of them in order. Return one result per item.

        Raises PushFailed if the server refused some items; its `results` say which.

        Args:
            queue: The queue. It is created if it does not exist.
            payloads: A payload or a list of them. An item may be
                `{"data": payload, "transactionId": ..., "traceId": ..., "partition": ...}`.
            partition: The partition; by default `Default`.
        """
        return await self._push_items(calls.push_items(queue, payloads, partition=partition))

    async def _push_items(self, items: list[dict[str, Any]], *, once: str | None = None) -> Results:
        first = items[0] if items else {}
        key = affinity_key(first.get("queue"), first.get("partition"), None)
        with push_span(items):
            results = await self._pusher.send(items, key=key, once=once)
        for one in results:
            if one.status == "failed":
                raise PushFailed(results)
        return results

    async def push_buffered(
        self,
        queue: str,
        payloads: Any,
        /,
        *,
        partition: str | None = None,
        **options: Unpack[BufferKeywords],
    ) -> Buffered:
        """Buffer payloads to push them later. Waits while the buffer is full.

        Args:
            queue: The queue.
            payloads: A payload or a list of them, as for `push`.
            partition: The partition; by default `Default`.
            options: `message_count` and `time_millis` trigger a flush. At `max_size` messages the
                caller waits.
        """
        items = calls.push_items(
            queue, payloads, partition=partition, trace_id=current_trace_id()
        )  # fmt: skip
        return await self._buffers.add(calls.name_items(items), options)

    @overload
    async def pop(
        self, queue: str | None = ..., *, type: type[T], **how: Unpack[PopKeywords]
    ) -> list[Message[T]]: ...
    @overload
    async def pop(
        self, queue: str | None = ..., *, type: None = ..., **how: Unpack[PopKeywords]
    ) -> list[Message[Any]]: ...
    async def pop(
        self, queue: str | None = None, *, type: Any = None, **how: Unpack[PopKeywords]
    ) -> list[Message[Any]]:
        """Return messages, or an empty list if there are none.

        Args:
            queue: The queue; leave it out to pop by `namespace` or `task`.
            type: Convert payloads to this Struct, dataclass or other type.
            how: `group`, `partition`, `batch`, `partitions`, `wait` and `timeout_ms` for a long
                poll, `auto_ack` for no lease, `lease_seconds` for one of that length,
                `subscription_mode` and `subscription_from` for
                where a new group starts.
        """
        check_names("pop", how, PopKeywords.__annotations__)
        messages = await self._pop(PopRequest(queue=queue, **how))
        if type is None:
            return messages
        try:
            return [convert_message(message, type) for message in messages]
        except ValueError as error:
            raise PayloadMismatch(messages, str(error)) from None

    async def _pop(
        self, request: PopRequest, *, batch: int | None = None, timeout_ms: int | None = None
    ) -> list[Message[Any]]:
        wait_ms = request.timeout_ms if timeout_ms is None else timeout_ms
        path = request.path(batch=batch, timeout_ms=wait_ms)
        answer = await self._transport.request(
            "GET",
            path,
            timeout=wait_ms / 1000 + _POLL_MARGIN_S if request.wait else None,
            key=affinity_key(
                request.queue, request.partition, request.group, request.namespace, request.task
            ),
        )
        if answer.status == 204 or not answer.body:
            return []
        popped: Popped = self._transport.read(answer, Popped, f"GET {path}")
        return popped.bind_messages(self)

    @overload
    async def ack(
        self,
        message: Many,
        status: bool | str = ...,
        context: Mapping[str, Any] | None = ...,
        *,
        group: str | None = ...,
        error: str | None = ...,
    ) -> AckResults: ...
    @overload
    async def ack(
        self,
        message: One,
        status: bool | str = ...,
        context: Mapping[str, Any] | None = ...,
        *,
        group: str | None = ...,
        error: str | None = ...,
    ) -> wire.AckResult: ...
    async def ack(
        self,
        message: One | Many,
        status: bool | str = True,
        context: Mapping[str, Any] | None = None,
        *,
        group: str | None = None,
        error: str | None = None,
    ) -> wire.AckResult | AckResults:
        """Ack a message or a list of them.

        Args:
            message: A message that `pop` returned, or a list of them.
            status: True is `completed`, False is `failed`; also `retry` and `dlq`.
            context: `{"group": ..., "error": ...}`, as the official client takes them.
            group: The group to ack for; by default the one that popped the message.
            error: The reason of a failure, kept with a dead letter.
        """
        given = context or {}
        return await self._ack_client.ack(
            message, status, group=group or given.get("group"), error=error or given.get("error")
        )

    @overload
    async def nack(
        self, message: Many, error: str | None = ..., *, group: str | None = ...
    ) -> AckResults: ...
    @overload
    async def nack(
        self, message: One, error: str | None = ..., *, group: str | None = ...
    ) -> wire.AckResult: ...
    async def nack(
        self, message: One | Many, error: str | None = None, *, group: str | None = None
    ) -> wire.AckResult | AckResults:
        """Report a failure. The message is redelivered while retries are left, then dead-lettered.

        Args:
            message: A message that `pop` returned, or a list of them.
            error: The reason, kept with a dead letter.
            group: The group to ack for; by default the one that popped the message.
        """
        return await self._ack_client.ack(message, False, group=group, error=error)

    @overload
    async def renew(
        self, message_or_lease_id: Many | list[str], *, seconds: int = ...
    ) -> list[Renewal]: ...
    @overload
    async def renew(self, message_or_lease_id: One | str, *, seconds: int = ...) -> Renewal: ...
    async def renew(
        self, message_or_lease_id: One | str | Many | list[str], *, seconds: int = 60
    ) -> Renewal | list[Renewal]:
        """Extend leases. A lease that cannot be extended is reported in the result, not raised.

        Args:
            message_or_lease_id: A message, a lease id, or a list of them.
            seconds: How long the lease lasts from now.
        """
        return await self._ack_client.renew(message_or_lease_id, seconds=seconds)

    def transaction(self) -> Transaction:
        """Start a transaction: pushes and acks that happen together or not at all."""
        return Transaction(self._transport)

    def consume(
        self,
        queue: str | None = None,
        handler: Handler | None = None,
        **how: Unpack[ConsumeKeywords],
    ) -> Consumption:
        """Handle messages as they arrive. Await the result, or iterate over it.

        Args:
            queue: The queue; leave it out to consume by `namespace` or `task`.
            handler: A plain or a coroutine function of a message, or of a list of them. Leave it
                out to iterate over the result.
            how: As for `pop`, and `type`, `concurrency`, `each`, `limit`, `idle_ms`,
                `renew_lease`, `renew_interval_ms`, `stop_event`, `signals`; docs/client.md has a
                table of them.
        """
        return self._consume(ConsumeOptions.of(queue, **how), handler)

    def _consume(self, options: ConsumeOptions, handler: Handler | None) -> Consumption:
        check_function("consume", handler)
        return Consumption(self, options, handler)

    async def dead_letters(
        self, queue: str | None = None, *, group: str | None = None, limit: int = 100
    ) -> list[DeadLetter[Any]]:
        """Return dead letters, latest failure first.

        Args:
            queue: Only those of this queue.
            group: Only those of this consumer group.
            limit: At most this many.
        """
        found = await DeadLetterQuery(self._transport, queue, group).limit(limit).get()
        return found.messages

    async def trace(self, message: One, entry: Mapping[str, Any]) -> TraceOutcome:
        """Record a trace of a message. An error is reported in the result, never raised.

        Args:
            message: A message that `pop` returned.
            entry: `{"data": ..., "traceName": ..., "eventType": ...}`; only `data` is required.
        """
        if "data" not in entry:
            return TraceOutcome(success=False, error="a trace needs data: {'data': {...}}")
        names = entry.get("traceName") or None
        body = {
            "transactionId": message["transactionId"],
            "partitionId": message["partitionId"],
            "consumerGroup": message.get("consumerGroup") or calls.QUEUE_MODE,
            "traceNames": [names] if isinstance(names, str) else names,
            "eventType": entry.get("eventType") or "info",
            "data": entry["data"],
        }
        try:
            answer = await self._transport.call("POST", "/api/v1/traces", body)
        except ClientError as error:
            return TraceOutcome(success=False, error=str(error))
        found = answer if isinstance(answer, dict) else {}
        return TraceOutcome(success=True, trace_id=found.get("traceId"))

    # Consumer groups.

    async def delete_consumer_group(
        self, consumer_group: str, delete_metadata: bool = True, *, queue: str | None = None
    ) -> wire.GroupDeleted:
        """Delete the cursors of a group and, with its metadata, its start.

        Args:
            consumer_group: The group.
            delete_metadata: Whether to delete its start as well.
            queue: Only on this queue.
        """
        path = f"/api/v1/consumer-groups/{quote_name(consumer_group)}"
        if queue is not None:
            path += f"/queues/{quote_name(queue)}"
        path += f"?deleteMetadata={str(delete_metadata).lower()}"
        return await self._transport.fetch("DELETE", path, wire.GroupDeleted)

    async def update_consumer_group_timestamp(
        self, consumer_group: str, timestamp: str
    ) -> wire.GroupStartChanged:
        """Change where a group starts on partitions that are new to it.

        Args:
            consumer_group: The group.
            timestamp: The start, in ISO 8601.
        """
        path = f"/api/v1/consumer-groups/{quote_name(consumer_group)}/subscription"
        body = {"subscriptionTimestamp": timestamp}
        return await self._transport.fetch("POST", path, wire.GroupStartChanged, body)

    async def seek(
        self, queue: str, group: str, *, timestamp: str | None = None, to_end: bool = False
    ) -> wire.GroupMoved:
        """Move a group's cursors on a queue to a time or to the end.

        Args:
            queue: The queue.
            group: The consumer group.
            timestamp: The target, in ISO 8601.
            to_end: Move after the newest message instead.
        """
        path = f"/api/v1/consumer-groups/{quote_name(group)}/queues/{quote_name(queue)}/seek"
        body = {"toEnd": True} if to_end else {"timestamp": timestamp}
        return await self._transport.fetch("POST", path, wire.GroupMoved, body)

    # Buffers and closing.

    async def flush_all_buffers(self) -> None:
        """Push all buffered messages. Raises BufferFailed if some cannot be delivered now."""
        await self._buffers.flush_all()

    def get_buffer_stats(self) -> BufferStats:
        """Return how many messages are buffered, and since when."""
        return self._buffers.stats()

    async def close(self) -> None:
        """Stop consumers and streams, push buffered messages, close connections.

        The first two take at most `close_timeout` each. Raises BufferFailed with the messages that
        could not be delivered. The client is closed in any case.
        """
        timeout = self._options["close_timeout"]
        try:
            stops = [asyncio.ensure_future(one.stop()) for one in list(self._consumptions)]
            if stops:
                await asyncio.wait(stops, timeout=timeout)
            await self._buffers.close(timeout)
        finally:
            await self._transport.close()

    def __repr__(self) -> str:
        return f"Queen({', '.join(map(repr, self._transport.servers.urls))})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
