"""Turns signals into a stop between two batches instead of in the middle of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_requests(stop: threading.Event | None = None) -> Iterator[threading.Event]:
    """Yield an event that is set by SIGTERM and SIGINT. A second signal does what it always did."""
    stop = stop or threading.Event()
    if threading.current_thread() is not threading.main_thread():
        # Signals are the business of the main thread.
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def ask(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
