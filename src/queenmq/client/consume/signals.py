"""Handles SIGINT and SIGTERM while consumers run that stop on them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

_NUMBERS = (signal.SIGINT, signal.SIGTERM)

#: Callbacks. A signal is for all consumers of the program.
_listeners: list[Callable[[], object]] = []


@dataclass
class _Hold:
    """The installed handlers: how many consumers want them, and the previous handlers."""

    users: int = 0
    before: dict[signal.Signals, Any] = field(default_factory=dict)


#: By the event loop of the main thread; None where it waits without one.
_holds: dict[asyncio.AbstractEventLoop | None, _Hold] = {}


@contextlib.contextmanager
def call_on_signals(
    listener: Callable[[], object], loop: asyncio.AbstractEventLoop | None = None
) -> Iterator[None]:
    """Call `listener` on SIGINT and SIGTERM. It must be quick and safe at any moment.

    An event loop of the main thread handles the signals itself, because nothing else reliably wakes
    it. Without one, the main thread has to wake up now and then, for the same reason.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ValueError("signals=True works in the main thread only; use stop() or a stop_event")
    hold = _holds.setdefault(loop, _Hold())
    if not hold.users:
        hold.before = {number: _take(number, loop) for number in _NUMBERS}
    hold.users += 1
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
        hold.users -= 1
        if not hold.users:
            del _holds[loop]
            for number, handler in hold.before.items():
                _give_back(number, handler, loop)


def _take(number: signal.Signals, loop: asyncio.AbstractEventLoop | None) -> Any:
    before = signal.getsignal(number) or signal.SIG_DFL
    if loop is None:
        signal.signal(number, lambda *_: _call_listeners())
    else:
        loop.add_signal_handler(number, _call_listeners)
    return before


def _give_back(
    number: signal.Signals, handler: Any, loop: asyncio.AbstractEventLoop | None
) -> None:
    if loop is not None:
        loop.remove_signal_handler(number)
    signal.signal(number, handler)


def _call_listeners() -> None:
    for listener in list(_listeners):
        listener()
