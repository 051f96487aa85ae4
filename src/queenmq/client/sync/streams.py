"""Owns streams for plain threads: the same steps, whose functions run on threads."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, Self, Unpack

from queenmq.client.queue import Queue
from queenmq.client.streams.chain import Chain
from queenmq.client.streams.functions import await_result
from queenmq.client.streams.runner import RunKeywords, Runner
from queenmq.client.streams.stream import Stream
from queenmq.client.sync.builders import SyncQueue
from queenmq.client.sync.loop_thread import waited_for
from queenmq.client.sync.waiting import Waiter

P = ParamSpec("P")


class SyncRunner(Waiter[Runner]):
    """A running stream. `stop()` it, or use it as a context manager."""

    def wait(self) -> None:
        """Return when the stream has stopped. Ctrl-C stops it like `stop`, and is then raised."""
        future = self._thread.start(self._target.wait())
        try:
            waited_for(future)
        except KeyboardInterrupt:
            self.stop()
            raise

    def stop(self) -> None:
        """Finish the batch in hand and stop."""
        self._thread.call(self._target.stop())

    def metrics(self) -> dict[str, Any]:
        """Return counts since the start."""
        return self._target.metrics()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def _wrap_step(
    method: Callable[Concatenate[Stream, P], Stream],
) -> Callable[Concatenate[SyncStream, P], SyncStream]:
    """Return a step of Stream as one of SyncStream, with its functions on threads."""

    def call(self: SyncStream, /, *args: P.args, **kwargs: P.kwargs) -> SyncStream:
        given = [_on_thread(one) for one in args]
        named = {name: _on_thread(one) for name, one in kwargs.items()}
        return self._with(method(self._target, *given, **named))

    functools.update_wrapper(call, method)
    return call


class SyncStream(Waiter[Stream]):
    """A chain of steps; see Stream for what they do. `run` works until Ctrl-C.

    Plain functions run on threads, so they may wait, and use the client.
    """

    map = _wrap_step(Stream.map)
    filter = _wrap_step(Stream.filter)
    flat_map = _wrap_step(Stream.flat_map)
    key_by = _wrap_step(Stream.key_by)
    window_tumbling = _wrap_step(Stream.window_tumbling)
    window_sliding = _wrap_step(Stream.window_sliding)
    window_session = _wrap_step(Stream.window_session)
    window_cron = _wrap_step(Stream.window_cron)
    gate = _wrap_step(Stream.gate)
    foreach = _wrap_step(Stream.foreach)

    def reduce(self, fn: Callable[[Any, Any], Any], initial: Any = None) -> SyncStream:
        """Fold the values of a window: `fn(total, value)`."""
        return self._with(self._target.reduce(_on_thread(fn), initial))

    def aggregate(self, extractors: Mapping[str, Callable[[Any], Any]]) -> SyncStream:
        """Count and sum values of a window by name; also `min`, `max` and `avg`."""
        given = {name: _on_thread(one) for name, one in extractors.items()}
        return self._with(self._target.aggregate(given))

    def to(
        self,
        queue: SyncQueue | Queue | str,
        partition: str | Callable[[Any], Any] | None = None,
    ) -> SyncStream:
        """Push to a queue, exactly once; to the partition of the source unless another is given.

        A function for the partition must not wait: it runs beside all other calls of the client.
        """
        target = queue._target if isinstance(queue, SyncQueue) else queue
        return self._with(self._target.to(target, partition))

    flatMap = flat_map
    keyBy = key_by
    windowTumbling = window_tumbling
    windowSliding = window_sliding
    windowSession = window_session
    windowCron = window_cron

    @property
    def config_hash(self) -> str:
        """Return the hash of the chain; a query refuses to go on with another one."""
        return self._target.config_hash

    def chain(self) -> Chain:
        """Return the steps as they are run; ValueError if they do not fit together."""
        return self._target.chain()

    def run(self, query_id: str, url: str | None = None, **how: Unpack[RunKeywords]) -> None:
        """Register the stream as the query of this name, and work until Ctrl-C.

        Closing the client from another thread ends it as well. `start` does not wait.
        """
        started: list[Runner] = []

        async def work() -> None:
            started.append(await self._target.run(query_id, url, **how))
            await started[0].wait()

        async def stop() -> None:
            # Here and not in the caller's thread, because the stream may be about to start.
            if started:
                await started[0].stop()
            else:
                future.cancel()

        future = self._thread.start(work())
        try:
            waited_for(future)
        except KeyboardInterrupt:
            self._thread.call(stop())
            raise

    def start(
        self, query_id: str, url: str | None = None, **how: Unpack[RunKeywords]
    ) -> SyncRunner:
        """Register the stream as the query of this name, and start it beside the caller."""
        runner = self._thread.call(self._target.run(query_id, url, **how))
        return SyncRunner(self._thread, runner)

    def _with(self, target: Stream) -> SyncStream:
        return SyncStream(self._thread, target)


def _on_thread(given: Any) -> Any:
    """Return a plain function as one that runs on a thread; everything else as it is.

    On the thread of the event loop a function that waits would hold up all calls of the client, and
    one that calls the client would wait for itself.
    """
    if not callable(given) or inspect.iscoroutinefunction(given):
        return given

    @functools.wraps(given)
    async def call(*args: Any) -> Any:
        return await await_result(await asyncio.to_thread(given, *args))

    return call
