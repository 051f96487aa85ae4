"""Owns the result of `consume`: await it, iterate over it, or run it in the background."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from queenmq.client.arguments import check_flag, check_integer, check_names, check_number
from queenmq.client.calls import PopKeywords, PopRequest
from queenmq.client.consume.acks import Acker, ack_failed, release
from queenmq.client.consume.consumer import Consumer
from queenmq.client.consume.handling import error_text, log_misfit
from queenmq.client.consume.progress import BatchProgress
from queenmq.client.consume.signals import call_on_signals
from queenmq.client.message import Message

if TYPE_CHECKING:
    from queenmq.client.client import Queen

#: A plain or a coroutine function of a message, or of a list of them.
Handler = Callable[[Any], Any]


class ConsumeKeywords(PopKeywords, total=False):
    """Keyword arguments of consume. `auto_ack` means an ack after the handler."""

    type: Any
    concurrency: int
    limit: int | None
    idle_ms: int | None
    renew_lease: bool
    renew_interval_ms: int
    each: bool
    stop_event: asyncio.Event | None
    signals: bool


@dataclass(frozen=True, kw_only=True)
class ConsumeOptions:
    """The options of consume."""

    request: PopRequest
    type: Any = None
    auto_ack: bool = True
    concurrency: int = 1
    limit: int | None = None
    idle_ms: int | None = None
    renew_lease: bool = True
    renew_interval_ms: int = 5_000
    each: bool = False
    stop_event: asyncio.Event | None = None
    signals: bool = False

    @classmethod
    def of(cls, queue: str | None, **how: Any) -> Self:
        """Build options from one set of keywords, including those of a pop."""
        check_names("consume", how, ConsumeKeywords.__annotations__)
        own = {one.name for one in fields(cls)} & how.keys()
        mine = {name: how.pop(name) for name in own}
        return cls(request=PopRequest(queue=queue, **{"wait": True, **how}), **mine)

    def __post_init__(self) -> None:
        check_integer("batch", self.request.batch, low=1)
        check_integer("partitions", self.request.partitions, low=1)
        check_integer("concurrency", self.concurrency, low=1)
        check_number("renew_interval_ms", self.renew_interval_ms, low=1)
        if self.limit is not None:
            check_integer("limit", self.limit, low=0)
        if self.idle_ms is not None:
            check_number("idle_ms", self.idle_ms, low=0)
        for name in ("auto_ack", "renew_lease", "each", "signals"):
            check_flag(name, getattr(self, name))


@dataclass(eq=False, repr=False)
class Consumption:
    """A consumer that is set up but not started.

    `await` it to run it to its end. Use it as a context manager to run it in the background.
    Without a handler, iterate over it.
    """

    _queen: Queen
    _options: ConsumeOptions
    _handler: Handler | None
    _on_success: Callable[..., Any] | None = None
    _on_error: Callable[..., Any] | None = None
    _consumer: Consumer | None = None
    _task: asyncio.Task[None] | None = None
    _iterator: AsyncGenerator[Message[Any], None] | None = None
    _is_managed: bool = False
    _body_error: BaseException | None = None
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    def on_success(self, callback: Callable[..., Any]) -> Self:
        """Call a function after a handler. The callbacks have to ack then.

        Args:
            callback: A plain or a coroutine function of the message and the handler's result.
        """
        self._on_success = callback
        return self

    def on_error(self, callback: Callable[..., Any]) -> Self:
        """Call a function when a handler raises. The callbacks have to ack then.

        Args:
            callback: A plain or a coroutine function of the message and the error.
        """
        self._on_error = callback
        return self

    def stop(self) -> asyncio.Future[None]:
        """Stop taking new messages.

        Await the result to wait until running handlers are finished. Inside a handler or a loop it
        returns at once.
        """
        consumer = self._consumer
        if consumer is not None:
            consumer.stop()
        return asyncio.ensure_future(self._wait_ended(asyncio.current_task()))

    async def _wait_ended(self, caller: asyncio.Task[Any] | None) -> None:
        if self._consumer is not None and self._handler is not None:
            if caller not in self._consumer.workers:
                await self._ended.wait()

    def __repr__(self) -> str:
        request = self._options.request
        state = "ended" if self._ended.is_set() else "running"
        if self._consumer is None:
            state = "not started"
        return f"<Consumption of {request.place!r} by group {request.group!r}, {state}>"

    # Awaited.

    def __await__(self) -> Generator[Any, None, None]:
        return self._run(self._begin()).__await__()

    def _begin(self) -> Consumer:
        if self._consumer is not None:
            raise RuntimeError("this consumer has already run; call consume again for another one")
        self._consumer = Consumer(
            self._queen,
            self._options,
            handle=self._handler,
            on_success=self._on_success,
            on_error=self._on_error,
        )
        self._queen._consumptions.add(self)
        return self._consumer

    def _end(self) -> None:
        self._queen._consumptions.discard(self)
        self._ended.set()

    async def _run(self, consumer: Consumer) -> None:
        if self._handler is None:
            self._end()
            raise ValueError("consume has no handler: pass one, or iterate over it")
        try:
            with self._signals(consumer):
                await consumer.run()
        finally:
            self._end()

    def _signals(self, consumer: Consumer) -> contextlib.AbstractContextManager[None]:
        """Let SIGINT and SIGTERM stop the consumer, if that was asked for."""
        if not self._options.signals:
            return contextlib.nullcontext()
        loop = asyncio.get_running_loop()
        return call_on_signals(lambda: loop.call_soon_threadsafe(consumer.stop), loop)

    # In the background.

    async def __aenter__(self) -> Self:
        self._is_managed = True
        if self._handler is not None:
            self._task = asyncio.create_task(self._run(self._begin()))
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._task is not None:
            if self._consumer is not None:
                self._consumer.stop()
            await self._task
        elif self._iterator is not None:
            self._body_error = error
            await self._iterator.aclose()

    # Iterated over.

    def __aiter__(self) -> AsyncIterator[Message[Any]]:
        if self._handler is not None:
            raise ValueError("consume has a handler: await it, or leave the handler out")
        iterator = self._iterate(self._begin())
        if self._is_managed:
            # Without the context manager no caller may hold it, so the end of the loop ends it.
            self._iterator = iterator
        return iterator

    async def _iterate(self, consumer: Consumer) -> AsyncGenerator[Message[Any], None]:
        """Yield messages. Asking for the next one acks the previous one."""
        try:
            with self._signals(consumer):
                async with contextlib.aclosing(consumer.batches()) as batches:
                    async for progress, acker in batches:
                        try:
                            while (
                                message := await self._next(consumer, progress, acker)
                            ) is not None:
                                yield message
                                if consumer.handling.acks:
                                    acker.add(message)
                                progress.finish()
                        finally:
                            await self._leave(consumer, progress, acker)
        finally:
            self._end()

    async def _next(
        self, consumer: Consumer, progress: BatchProgress, acker: Acker
    ) -> Message[Any] | None:
        """Return the next message of the batch that can be handled. Others are failed."""
        while not consumer.is_stopping and (message := progress.next()) is not None:
            misfit = consumer.handling.misfit(message)
            if misfit is None:
                return message
            log_misfit(message, misfit)
            await acker.drain()
            await ack_failed(self._queen._ack_client, progress, message, error_text(misfit))
        return None

    async def _leave(self, consumer: Consumer, progress: BatchProgress, acker: Acker) -> None:
        """Ack or release the rest of a batch when the loop ends."""
        if not consumer.handling.acks or not progress.rest():
            return
        ack_client = self._queen._ack_client
        await acker.drain()
        if self._body_error is not None and progress.in_hand is not None:
            await ack_failed(ack_client, progress, progress.in_hand, error_text(self._body_error))
        await release(ack_client, progress.rest())
