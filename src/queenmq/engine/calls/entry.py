"""The answer of a request that waits for its call."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from queenmq.errors import QueenError

R = TypeVar("R")


class Answerable(Generic[R]):
    """A request with one answer. The first one counts, and none if the caller has left.

    There is no `__init__`, because each request of the hot paths would pay for the call.
    """

    __slots__ = ("future",)

    future: asyncio.Future[R]

    def answer(self, result: R) -> None:
        """Give the caller this result."""
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: QueenError) -> None:
        """Give the caller this error."""
        if not self.future.done():
            self.future.set_exception(error)
