"""Owns the batch that arrives with the acks of the previous one, in one request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from queenmq.client.calls import PopRequest
from queenmq.client.consume.progress import Budget
from queenmq.client.message import Message


class Ahead:
    """The prefetched batch of a worker. Its share of the budget is reserved."""

    def __init__(
        self, request: PopRequest, budget: Budget, *, is_stopping: Callable[[], bool]
    ) -> None:
        self._request = replace(request, wait=False)
        self._budget = budget
        self._is_stopping = is_stopping
        self._share = 0
        self._messages: list[Message[Any]] = []

    def ask(self) -> str | None:
        """Return the pop to send with acks, or None if nothing more is wanted."""
        if self._is_stopping() or self._share:
            return None
        self._share = self._budget.take(self._request.batch)
        return self._request.path(batch=self._share) if self._share else None

    def put(self, messages: Sequence[Message[Any]]) -> None:
        """Store the batch that the pop returned, if any. A failed pop has none."""
        self._messages = list(messages)
        if not messages:
            self._budget.give_back(self._share, 0)
            self._share = 0

    def take(self) -> tuple[int, list[Message[Any]]]:
        """Return the share and the batch, or 0 and none."""
        found = self._share, self._messages
        self._share, self._messages = 0, []
        return found
