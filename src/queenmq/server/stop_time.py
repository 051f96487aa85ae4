"""The time that the stop of a broker may take: set once where it begins, shared by its parts."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

#: What may follow the work in flight: the last minute of the history, services, connections.
_CLOSING_S = 3.0
#: A parent kills a worker this long after that.
_EXIT_S = 2.0


class StopTime:
    """The deadlines of one stop, by the clock of the running event loop."""

    def __init__(self, shutdown_timeout_ms: int) -> None:
        #: Work in flight ends by then, or is cut off.
        self.work_until_s = asyncio.get_running_loop().time() + shutdown_timeout_ms / 1000
        #: Services and connections are closed by then, or are left to the end of the process.
        self.closed_until_s = self.work_until_s + _CLOSING_S

    def work_left_s(self) -> float:
        """Return how long work in flight may still take."""
        return max(0.0, self.work_until_s - asyncio.get_running_loop().time())

    async def close_in_thread(self, close: Callable[[], None]) -> None:
        """Close what blocks, in a thread that the process does not wait for at its end."""
        loop = asyncio.get_running_loop()
        is_closed = asyncio.Event()

        def run() -> None:
            close()
            # The loop may be gone by then.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(is_closed.set)

        threading.Thread(target=run, name="close", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self.closed_until_s):
                await is_closed.wait()


def exit_limit_s(shutdown_timeout_ms: int) -> float:
    """Return how long a worker process may take to end."""
    return shutdown_timeout_ms / 1000 + _CLOSING_S + _EXIT_S
