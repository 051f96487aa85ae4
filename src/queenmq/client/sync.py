"""Owns `SyncQueen`: the same client for code without an event loop.

Nothing is written twice: calls are handed to a Queen that lives in an event loop on a thread of its
own. Calls may come from any number of threads at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from queenmq.client.builders import DeadLetterQuery
from queenmq.client.calls import PopKeywords
from queenmq.client.client import Queen
from queenmq.client.consume.consumption import ConsumeKeywords, Consumption, Handler
from queenmq.client.consume.signals import told_of_signals
from queenmq.client.errors import ClientClosed
from queenmq.client.message import Message
from queenmq.client.options import Config, Options
from queenmq.client.queue import Queue
from queenmq.client.transaction import Transaction, TransactionQueue

P = ParamSpec("P")
R = TypeVar("R")

#: Handlers that may run at the same time, each on a thread.
_THREADS = 64
#: Seconds until a signal is noticed at the latest.
_LOOK_UP_S = 1.0
_BUILDERS = (Queue, Transaction, TransactionQueue, DeadLetterQuery)


def waited_for(future: Future[R]) -> R:
    """The result. A signal that comes just before a thread waits does not wake it, so it looks up
    now and then; else Ctrl-C might be noticed only when the work is done.
    """
    while True:
        try:
            return future.result(_LOOK_UP_S)
        except TimeoutError:
            if future.done():
                # It is an error of the work, or the result is there by now.
                return future.result()


class _LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(_THREADS, "queenmq-handler"))
        self._thread = threading.Thread(target=self._run, name="queenmq", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, work: Awaitable[R]) -> R:
        """Wait for the work; an interrupt of the waiting thread ends it."""
        future = self.start(work)
        try:
            return waited_for(future)
        except BaseException:
            future.cancel()
            raise

    def start(self, work: Awaitable[R]) -> Future[R]:
        """Begin the work."""
        if self._loop.is_closed():
            if inspect.iscoroutine(work):
                work.close()
            raise ClientClosed("the client was closed; make a new one")

        async def run() -> R:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop)

    def soon(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(callback)

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closed()

    def close(self) -> None:
        self.call(self._loop.shutdown_asyncgens())
        self.call(self._loop.shutdown_default_executor())
        self.soon(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _waited(
    method: Callable[Concatenate[Queen, P], Awaitable[R]],
) -> Callable[Concatenate[SyncQueen, P], R]:
    """The method of Queen as one that waits."""

    def call(self: SyncQueen, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._thread.call(method(self._queen, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


class SyncQueen:
    """The client for plain threads; see Queen for what the calls do."""

    def __init__(self, config: Config = None, **options: Unpack[Options]) -> None:
        self._queen = Queen(config, **options)
        self._thread = _LoopThread()

    create_queue = _waited(Queen.create_queue)
    delete_queue = _waited(Queen.delete_queue)
    push = _waited(Queen.push)
    push_buffered = _waited(Queen.push_buffered)
    ack = _waited(Queen.ack)
    nack = _waited(Queen.nack)
    renew = _waited(Queen.renew)
    dead_letters = _waited(Queen.dead_letters)
    trace = _waited(Queen.trace)
    delete_consumer_group = _waited(Queen.delete_consumer_group)
    update_consumer_group_timestamp = _waited(Queen.update_consumer_group_timestamp)
    seek = _waited(Queen.seek)
    flush_all_buffers = _waited(Queen.flush_all_buffers)

    def pop(
        self, queue: str | None = None, *, type: Any = None, **how: Unpack[PopKeywords]
    ) -> list[Message[Any]]:
        return self._thread.call(self._queen.pop(queue, type=type, **how))

    def get_buffer_stats(self) -> dict[str, Any]:
        async def stats() -> dict[str, Any]:
            return self._queen.get_buffer_stats()

        return self._thread.call(stats())

    def queue(self, name: str | None = None) -> SyncBuilder:
        """The fluent form; its last call waits for the answer."""
        return SyncBuilder(self, self._queen.queue(name))

    @property
    def admin(self) -> SyncBuilder:
        """What operators ask for."""
        return SyncBuilder(self, self._queen.admin)

    @property
    def pipeline(self) -> SyncBuilder:
        """What jobs on Spark have found."""
        return SyncBuilder(self, self._queen.pipeline)

    def transaction(self) -> SyncBuilder:
        """Pushes and acks that happen together; `commit()` waits, so does the end of `with`."""
        return SyncBuilder(self, self._queen.transaction())

    def consume(
        self,
        queue: str | None = None,
        handler: Handler | None = None,
        **how: Unpack[ConsumeKeywords],
    ) -> SyncConsumption:
        """Handlers are plain functions here and run on threads."""
        signals = how.pop("signals", False)
        consumption = self._queen.consume(queue, threaded(handler), **how)
        return SyncConsumption(self, consumption, signals=signals)

    def close(self) -> None:
        """Stop consumers, push what is buffered, close connections, end the thread."""
        if self._thread.is_closed:
            return
        try:
            self._thread.call(self._queen.close())
        finally:
            self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class SyncBuilder:
    """A builder whose calls wait instead of giving something to await."""

    def __init__(self, queen: SyncQueen, target: Any) -> None:
        self._queen = queen
        self._target = target

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._target, name)

        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            if name != "consume":
                return self._result(method(*args, **kwargs))
            signals = kwargs.pop("signals", False)
            consumption = method(*map(threaded, args), **kwargs)
            return SyncConsumption(self._queen, consumption, signals=signals)

        return call

    def _result(self, value: Any) -> Any:
        if isinstance(value, _BUILDERS):
            return self if value is self._target else SyncBuilder(self._queen, value)
        return self._queen._thread.call(value) if inspect.isawaitable(value) else value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._queen._thread.call(self._target.__aexit__(*error))


class SyncConsumption:
    """A consumer: `run()` it, use it as a context manager, or iterate over it."""

    def __init__(self, queen: SyncQueen, consumption: Consumption, *, signals: bool) -> None:
        self._thread = queen._thread
        self._consumption = consumption
        # Signals come to the main thread, where the event loop is not.
        self._takes_signals = signals
        self._until_exit = contextlib.ExitStack()

    def _signals(self) -> contextlib.AbstractContextManager[None]:
        return (
            told_of_signals(self.request_stop) if self._takes_signals else contextlib.nullcontext()
        )

    def run(self) -> None:
        """Work to the end. Ctrl-C stops it as `stop` does, and is then raised."""
        with self._signals():
            future = self._thread.start(self._consumption)
            try:
                waited_for(future)
            except KeyboardInterrupt:
                self.request_stop()
                waited_for(future)
                raise

    def request_stop(self) -> None:
        """Take nothing new, and do not wait; this may be called by a handler."""
        self._thread.soon(self._consumption.stop)

    def stop(self) -> None:
        """Take nothing new, and wait until what is in hand is finished."""

        async def stop() -> None:
            await self._consumption.stop()

        self._thread.call(stop())

    def __iter__(self) -> Iterator[Message[Any]]:
        async def begin() -> Any:
            return aiter(self._consumption)

        with self._signals():
            iterator = self._thread.call(begin())
            try:
                while (message := self._thread.call(anext(iterator, None))) is not None:
                    yield message
            finally:
                self._thread.call(iterator.aclose())

    def __enter__(self) -> Self:
        self._until_exit.enter_context(self._signals())
        self._thread.call(self._consumption.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        with self._until_exit:
            self._thread.call(self._consumption.__aexit__(*error))


def threaded(handler: Handler | None) -> Handler | None:
    """The handler, run on a thread: a plain function may wait as long as it likes."""
    if handler is None or inspect.iscoroutinefunction(handler):
        return handler
    plain = handler
    return lambda argument: asyncio.to_thread(plain, argument)
