"""Owns `Queen`, the client: every call in a plain form, and the way into the fluent ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Self, TypeVar, Unpack, overload

from queenmq.client import calls
from queenmq.client.admin import Admin
from queenmq.client.builders import DeadLetterQuery
from queenmq.client.calls import PopKeywords, PopRequest, quoted
from queenmq.client.consume.consumption import ConsumeKeywords, ConsumeOptions, Consumption, Handler
from queenmq.client.consume.settling import Settler
from queenmq.client.errors import ClientError, PayloadMismatch, PushFailed
from queenmq.client.http.servers import affinity_key
from queenmq.client.message import Message, Popped, converted
from queenmq.client.options import Config, Options, resolved, transport_of
from queenmq.client.pipeline import Pipeline
from queenmq.client.push.buffers import BufferKeywords, Buffers
from queenmq.client.push.pushing import Pusher, Results
from queenmq.client.queue import Queue
from queenmq.client.streams.stream import Stream
from queenmq.client.tracing import current_trace_id, push_span
from queenmq.client.transaction import Transaction

T = TypeVar("T")

#: Seconds that an answer may take longer than the long poll it ends.
_POLL_MARGIN_S = 5.0


class Queen:
    """A client of one or several Queen servers.

    Opens connections when they are needed, in the event loop that needs them. Close it, or use it
    as `async with Queen("http://localhost:6632") as queen`.
    """

    def __init__(self, config: Config = None, **options: Unpack[Options]) -> None:
        self._options = resolved(config, options)
        self._transport = transport_of(self._options)
        self._pusher = Pusher(self._transport, self._options)
        self._settler = Settler(self, self._transport)
        self._buffers = Buffers(
            self._pusher,
            self._transport,
            self._options["on_buffer_error"],
            self._options["buffered_max"],
        )
        self._consumptions: set[Consumption] = set()
        #: What operators ask for.
        self.admin = Admin(self._transport)
        #: What jobs on Spark have found.
        self.pipeline = Pipeline(self._transport)

    # Queues.

    def queue(self, name: str | None = None) -> Queue:
        """The fluent form of everything about a queue."""
        return Queue(self, name)

    async def create_queue(
        self,
        name: str,
        /,
        *,
        namespace: str | None = None,
        task: str | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Create a queue, or replace all its options; what is left out falls back to defaults."""
        body = {
            "queue": name,
            "namespace": namespace,
            "task": task,
            "options": calls.camel_options(options),
        }
        result: dict[str, Any] = await self._transport.call("POST", "/api/v1/configure", body)
        return result

    async def delete_queue(self, name: str) -> dict[str, Any]:
        """Remove a queue and all that is in it."""
        path = f"/api/v1/resources/queues/{quoted(name)}"
        result: dict[str, Any] = await self._transport.call("DELETE", path)
        return result

    def stream(self, queue: str) -> Stream:
        """Begin a stream over a queue: windows, aggregations and gates, exactly once."""
        return Stream(queue, queen=self)

    # Messages.

    async def push(
        self, queue: str, payloads: Any, *, partition: str | None = None
    ) -> list[dict[str, Any]]:
        """Store one payload, or a list of them in order; one result per item.

        An item may be `{"data": payload, "transactionId": ..., "traceId": ..., "partition": ...}`.
        Raises PushFailed if the server refused some items; its `results` say which.
        """
        return await self._push_items(calls.push_items(queue, payloads, partition=partition))

    async def _push_items(self, items: list[dict[str, Any]]) -> Results:
        first = items[0] if items else {}
        key = affinity_key(first.get("queue"), first.get("partition"), None)
        with push_span(items):
            results = await self._pusher.send(items, key=key)
        for one in results:
            if one.get("status") == "failed":
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
    ) -> dict[str, Any]:
        """Take payloads to be pushed later, `message_count` at once or after `time_millis`.

        Waits while the buffer is full (`max_size`).
        """
        items = calls.push_items(
            queue, payloads, partition=partition, trace_id=current_trace_id()
        )  # fmt: skip
        return await self._buffers.add(items, options)

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
        """Messages now, or with `wait=True` within `timeout_ms`; an empty list if there are none.

        With `type`, payloads are converted to a Struct, dataclass or other type.
        """
        messages = await self._pop(PopRequest(queue=queue, **how))
        if type is None:
            return messages
        try:
            return [converted(message, type) for message in messages]
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
        return popped.received(self)

    async def ack(
        self,
        message: Any,
        status: bool | str = True,
        context: Mapping[str, Any] | None = None,
        *,
        group: str | None = None,
        error: str | None = None,
    ) -> dict[str, Any]:
        """Settle a message or a list of them: True is `completed`, False is `failed`; also
        `retry` and `dlq`. The group is the one that popped them, unless another one is given.
        """
        given = context or {}
        return await self._settler.ack(
            message, status, group=group or given.get("group"), error=error or given.get("error")
        )

    async def nack(
        self, message: Any, error: str | None = None, *, group: str | None = None
    ) -> dict[str, Any]:
        """Say that handling failed: redelivered while retries are left, then a dead letter."""
        return await self._settler.ack(message, False, group=group, error=error)

    async def renew(self, message_or_lease_id: Any, *, seconds: int = 60) -> Any:
        """Extend the leases of a message, a lease id or a list of them to `seconds` from now."""
        return await self._settler.renew(message_or_lease_id, seconds=seconds)

    def transaction(self) -> Transaction:
        """Pushes and acks that happen together or not at all."""
        return Transaction(self._transport)

    def consume(
        self,
        queue: str | None = None,
        handler: Handler | None = None,
        **how: Unpack[ConsumeKeywords],
    ) -> Consumption:
        """Handle messages as they come; await the result, or iterate over it."""
        return self._consume(ConsumeOptions.of(queue=queue, **how), handler)

    def _consume(self, options: ConsumeOptions, handler: Handler | None) -> Consumption:
        return Consumption(self, options, handler)

    async def dead_letters(
        self, queue: str | None = None, *, group: str | None = None, limit: int = 100
    ) -> list[Any]:
        """Messages that were given up, latest first."""
        found = await DeadLetterQuery(self._transport, queue, group).limit(limit).get()
        letters: list[Any] = found["messages"]
        return letters

    async def trace(self, message: Any, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Record something about a message; an error is an answer here, never raised."""
        if "data" not in entry:
            return {"success": False, "error": "a trace needs data: {'data': {...}}"}
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
            return {"success": False, "error": str(error)}
        return {"success": True, **(answer or {})}

    # Consumer groups.

    async def delete_consumer_group(
        self, consumer_group: str, delete_metadata: bool = True, *, queue: str | None = None
    ) -> dict[str, Any]:
        """Forget a group's cursors and, with its metadata, where it started."""
        path = f"/api/v1/consumer-groups/{quoted(consumer_group)}"
        if queue is not None:
            path += f"/queues/{quoted(queue)}"
        path += f"?deleteMetadata={str(delete_metadata).lower()}"
        return await self._transport.call("DELETE", path) or {"success": True}

    async def update_consumer_group_timestamp(
        self, consumer_group: str, timestamp: str
    ) -> dict[str, Any]:
        """Change where a group starts on partitions that are new to it."""
        path = f"/api/v1/consumer-groups/{quoted(consumer_group)}/subscription"
        body = {"subscriptionTimestamp": timestamp}
        return await self._transport.call("POST", path, body) or {"success": True}

    async def seek(
        self, queue: str, group: str, *, timestamp: str | None = None, to_end: bool = False
    ) -> dict[str, Any]:
        """Move a group's cursors on a queue to a time or to the end."""
        path = f"/api/v1/consumer-groups/{quoted(group)}/queues/{quoted(queue)}/seek"
        body = {"toEnd": True} if to_end else {"timestamp": timestamp}
        return await self._transport.call("POST", path, body) or {"success": True}

    # Buffers and the end.

    async def flush_all_buffers(self) -> None:
        """Push everything that is buffered; raises BufferFailed if that does not work now."""
        await self._buffers.flush_all()

    def get_buffer_stats(self) -> dict[str, Any]:
        """How much is buffered, and since when."""
        return self._buffers.stats()

    async def close(self) -> None:
        """Stop consumers, push what is buffered, close connections; the first two within
        `close_timeout` each.

        Raises BufferFailed, with the messages, if buffered ones could not be delivered; the client
        is closed then all the same.
        """
        timeout = self._options["close_timeout"]
        try:
            stops = [asyncio.ensure_future(one.stop()) for one in list(self._consumptions)]
            if stops:
                await asyncio.wait(stops, timeout=timeout)
            await self._buffers.close(timeout)
        finally:
            await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
