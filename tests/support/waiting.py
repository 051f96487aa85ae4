"""Owns waiting in tests: look at a condition until it holds or a deadline passes.

The only place below `tests/` that may sleep. A slow machine then makes a test slower, not red,
and a test that does fail says what it was waiting for.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar, overload

Value = TypeVar("Value")

#: Seconds between two looks: short next to any broker timer, long next to the cost of one look.
POLL_INTERVAL_S = 0.01


def wait_until(predicate: Callable[[], Value], *, timeout_s: float, what: str) -> Value:
    """Return the first truthy value of `predicate`; fail after `timeout_s`, naming `what`.

    The predicate is called at least once, and once more after the deadline has passed.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        is_last_look = time.monotonic() >= deadline
        value = predicate()
        if value:
            return value
        if is_last_look:
            _fail(value, timeout_s=timeout_s, what=what)
        time.sleep(POLL_INTERVAL_S)


@overload
async def wait_until_async(
    predicate: Callable[[], Awaitable[Value]], *, timeout_s: float, what: str
) -> Value: ...
@overload
async def wait_until_async(
    predicate: Callable[[], Value], *, timeout_s: float, what: str
) -> Value: ...
async def wait_until_async(
    predicate: Callable[[], object], *, timeout_s: float, what: str
) -> object:
    """Do the same without blocking the loop; the predicate may be a coroutine function.

    A look that hangs counts against the deadline too.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        is_last_look = time.monotonic() >= deadline
        answer = predicate()
        if inspect.isawaitable(answer):
            # The last look keeps a moment of its own, or a deadline already passed would cancel it.
            look_s = max(deadline - time.monotonic(), 10 * POLL_INTERVAL_S)
            try:
                answer = await asyncio.wait_for(answer, look_s)
            except TimeoutError:
                _fail("no answer", timeout_s=timeout_s, what=what)
        if answer:
            return answer
        if is_last_look:
            _fail(answer, timeout_s=timeout_s, what=what)
        await asyncio.sleep(POLL_INTERVAL_S)


def _fail(last: object, *, timeout_s: float, what: str) -> NoReturn:
    raise AssertionError(f"waited {timeout_s:g} s for {what}; last seen: {last!r}")
