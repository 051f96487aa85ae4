"""Owns the event loop on a separate thread, and waits for its results."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from queenmq.client.errors import ClientClosed

R = TypeVar("R")

#: Handlers that may run at the same time, each on a thread.
_THREADS = 64
#: Seconds until a signal is noticed at the latest.
_LOOK_UP_S = 1.0


def waited_for(future: Future[R]) -> R:
    """Return the result. A signal that comes just before a thread waits does not wake it, so it
    looks up now and then; else Ctrl-C might be noticed only when the work is done.
    """
    while True:
        try:
            return future.result(_LOOK_UP_S)
        except TimeoutError:
            if future.done():
                # It is an error of the work, or the result is there by now.
                return future.result()


class LoopThread:
    """An event loop on a separate thread."""

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
