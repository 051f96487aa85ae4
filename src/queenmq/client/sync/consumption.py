"""Owns a consumer for plain threads."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Iterator
from typing import Any, Self

from queenmq.client.arguments import check_function
from queenmq.client.consume.consumption import Consumption, Handler
from queenmq.client.consume.signals import call_on_signals
from queenmq.client.message import Message
from queenmq.client.sync.loop_thread import LoopThread, waited_for


class SyncConsumption:
    """A consumer: `run()` it, use it as a context manager, or iterate over it."""

    def __init__(self, thread: LoopThread, consumption: Consumption, *, signals: bool) -> None:
        self._thread = thread
        self._consumption = consumption
        # Signals come to the main thread, where the event loop is not.
        self._takes_signals = signals
        self._until_exit = contextlib.ExitStack()

    def __repr__(self) -> str:
        return repr(self._consumption)

    def _signals(self) -> contextlib.AbstractContextManager[None]:
        return (
            call_on_signals(self.request_stop) if self._takes_signals else contextlib.nullcontext()
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
        """Take nothing new, and do not wait. This may be called by a handler."""
        self._thread.soon(self._consumption.stop)

    def stop(self) -> None:
        """Take nothing new, and wait until running handlers are finished."""

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


def run_on_thread(handler: Handler | None) -> Handler | None:
    """Return the handler, run on a thread: a plain function may wait as long as it likes."""
    check_function("consume", handler)
    if handler is None or inspect.iscoroutinefunction(handler):
        return handler
    plain = handler
    return lambda argument: asyncio.to_thread(plain, argument)
