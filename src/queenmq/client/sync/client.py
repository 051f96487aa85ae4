"""Owns `SyncQueen`: the client for code without an event loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeVar, Unpack, overload

from queenmq import wire
from queenmq.client.calls import PopKeywords
from queenmq.client.client import Many, One, Queen
from queenmq.client.consume.ack_client import AckResults, Renewal
from queenmq.client.consume.consumption import ConsumeKeywords, Handler
from queenmq.client.message import Message
from queenmq.client.options import Config, Options
from queenmq.client.push.buffers import BufferStats
from queenmq.client.sync.admin import SyncAdmin, SyncPipeline
from queenmq.client.sync.builders import SyncQueue, SyncTransaction
from queenmq.client.sync.consumption import SyncConsumption, run_on_thread
from queenmq.client.sync.loop_thread import LoopThread
from queenmq.client.sync.streams import SyncStream
from queenmq.client.sync.waiting import Waiter, wait_for_method

T = TypeVar("T")


class SyncQueen(Waiter[Queen]):
    """The client for plain threads; see Queen for what the calls do.

    Args:
        config: A URL, a list of URLs, or a mapping of options.
        options: See `Options`; docs/client.md has a table of them.
    """

    def __init__(self, config: Config = None, **options: Unpack[Options]) -> None:
        super().__init__(LoopThread(), Queen(config, **options))
        #: What operators ask for.
        self.admin = SyncAdmin(self._thread, self._target.admin)
        #: What jobs on Spark have found.
        self.pipeline = SyncPipeline(self._thread, self._target.pipeline)

    create_queue = wait_for_method(Queen.create_queue)
    delete_queue = wait_for_method(Queen.delete_queue)
    push = wait_for_method(Queen.push)
    push_buffered = wait_for_method(Queen.push_buffered)
    dead_letters = wait_for_method(Queen.dead_letters)
    trace = wait_for_method(Queen.trace)
    delete_consumer_group = wait_for_method(Queen.delete_consumer_group)
    update_consumer_group_timestamp = wait_for_method(Queen.update_consumer_group_timestamp)
    seek = wait_for_method(Queen.seek)
    flush_all_buffers = wait_for_method(Queen.flush_all_buffers)

    @overload
    def pop(
        self, queue: str | None = ..., *, type: type[T], **how: Unpack[PopKeywords]
    ) -> list[Message[T]]: ...
    @overload
    def pop(
        self, queue: str | None = ..., *, type: None = ..., **how: Unpack[PopKeywords]
    ) -> list[Message[Any]]: ...
    def pop(
        self, queue: str | None = None, *, type: Any = None, **how: Unpack[PopKeywords]
    ) -> list[Message[Any]]:
        """Return messages, or an empty list if there are none.

        Args:
            queue: The queue; leave it out to pop by `namespace` or `task`.
            type: Convert payloads to this Struct, dataclass or other type.
            how: As for `Queen.pop`.
        """
        return self._thread.call(self._target.pop(queue, type=type, **how))

    @overload
    def ack(
        self,
        message: Many,
        status: bool | str = ...,
        context: Mapping[str, Any] | None = ...,
        *,
        group: str | None = ...,
        error: str | None = ...,
    ) -> AckResults: ...
    @overload
    def ack(
        self,
        message: One,
        status: bool | str = ...,
        context: Mapping[str, Any] | None = ...,
        *,
        group: str | None = ...,
        error: str | None = ...,
    ) -> wire.AckResult: ...
    def ack(
        self,
        message: Any,
        status: bool | str = True,
        context: Mapping[str, Any] | None = None,
        *,
        group: str | None = None,
        error: str | None = None,
    ) -> wire.AckResult | AckResults:
        """Settle a message or a list of them.

        Args:
            message: A message as `pop` gave it, or a list of them.
            status: True is `completed`, False is `failed`; also `retry` and `dlq`.
            context: `{"group": ..., "error": ...}`, as the official client takes them.
            group: The group to ack for; by default the one that popped the message.
            error: Why handling failed; kept with a dead letter.
        """
        acked: wire.AckResult | AckResults = self._thread.call(
            self._target.ack(message, status, context, group=group, error=error)
        )
        return acked

    @overload
    def nack(
        self, message: Many, error: str | None = ..., *, group: str | None = ...
    ) -> AckResults: ...
    @overload
    def nack(
        self, message: One, error: str | None = ..., *, group: str | None = ...
    ) -> wire.AckResult: ...
    def nack(
        self, message: Any, error: str | None = None, *, group: str | None = None
    ) -> wire.AckResult | AckResults:
        """Say that handling failed: redelivered while retries are left, then a dead letter.

        Args:
            message: A message as `pop` gave it, or a list of them.
            error: Why; kept with a dead letter.
            group: The group to ack for; by default the one that popped the message.
        """
        acked: wire.AckResult | AckResults = self._thread.call(
            self._target.nack(message, error, group=group)
        )
        return acked

    @overload
    def renew(
        self, message_or_lease_id: Many | list[str], *, seconds: int = ...
    ) -> list[Renewal]: ...
    @overload
    def renew(self, message_or_lease_id: One | str, *, seconds: int = ...) -> Renewal: ...
    def renew(self, message_or_lease_id: Any, *, seconds: int = 60) -> Renewal | list[Renewal]:
        """Extend leases. A lease that cannot be extended is an answer here, not an error.

        Args:
            message_or_lease_id: A message, a lease id, or a list of them.
            seconds: How long the lease is to last from now on.
        """
        renewed: Renewal | list[Renewal] = self._thread.call(
            self._target.renew(message_or_lease_id, seconds=seconds)
        )
        return renewed

    def get_buffer_stats(self) -> BufferStats:
        """Return how much is buffered, and since when."""

        async def stats() -> BufferStats:
            return self._target.get_buffer_stats()

        return self._thread.call(stats())

    def queue(self, name: str | None = None) -> SyncQueue:
        """Return the fluent form; its last call waits for the answer.

        Args:
            name: The queue; leave it out to pop by namespace or task.
        """
        return SyncQueue(self._thread, self._target.queue(name))

    def stream(self, queue: str) -> SyncStream:
        """Begin a stream over a queue; its `run` works until Ctrl-C, `start` does not wait.

        Args:
            queue: The queue that the stream reads.
        """
        return SyncStream(self._thread, self._target.stream(queue))

    def transaction(self) -> SyncTransaction:
        """Begin a transaction; `commit()` waits, so does the end of `with`."""
        return SyncTransaction(self._thread, self._target.transaction())

    def consume(
        self,
        queue: str | None = None,
        handler: Handler | None = None,
        **how: Unpack[ConsumeKeywords],
    ) -> SyncConsumption:
        """Handle messages: `run()` it, use it as a context manager, or iterate over it.

        Args:
            queue: The queue; leave it out to consume by `namespace` or `task`.
            handler: A plain function of a message, or of a list of them; it runs on a thread.
            how: As for `Queen.consume`.
        """
        signals = how.pop("signals", False)
        consumption = self._target.consume(queue, run_on_thread(handler), **how)
        return SyncConsumption(self._thread, consumption, signals=signals)

    def close(self) -> None:
        """Stop consumers and streams, push buffered messages, close connections, end the thread."""
        if self._thread.is_closed:
            return
        try:
            self._thread.call(self._target.close())
        finally:
            self._thread.close()

    def __repr__(self) -> str:
        return f"Sync{self._target!r}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
