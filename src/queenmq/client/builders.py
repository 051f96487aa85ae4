"""Owns awaitable builders: calls that are sent when awaited, with callbacks."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Generic, Self, TypeVar

from queenmq import wire
from queenmq.client.calls import query_text
from queenmq.client.errors import ClientError, PushFailed
from queenmq.client.http.transport import Transport
from queenmq.client.message import DeadLetters

T = TypeVar("T")

#: A plain or a coroutine function.
Callback = Callable[..., Any]


async def call_back(callback: Callback, *arguments: Any) -> Any:
    """Call a callback and return its result. Await it if it is a coroutine function."""
    answer = callback(*arguments)
    return await answer if inspect.isawaitable(answer) else answer


class Operation(Generic[T]):
    """A call that is sent when awaited. With `on_error` it does not raise."""

    def __init__(self, send: Callable[[], Awaitable[T]]) -> None:
        self._send = send
        self._on_success: Callback | None = None
        self._on_error: Callback | None = None

    def on_success(self, callback: Callback) -> Self:
        """Call a function with the result.

        Args:
            callback: A plain or a coroutine function.
        """
        self._on_success = callback
        return self

    def on_error(self, callback: Callback) -> Self:
        """Call a function with an error instead of raising it.

        Args:
            callback: A plain or a coroutine function.
        """
        self._on_error = callback
        return self

    def __await__(self) -> Generator[Any, None, T]:
        return self._execute().__await__()

    async def _execute(self) -> T:
        try:
            result = await self._send()
        except ClientError as error:
            if self._on_error is None:
                raise
            await call_back(self._on_error, error)
            failure: Any = {"success": False, "error": str(error)}
            return failure  # type: ignore[no-any-return]
        if self._on_success is not None:
            await call_back(self._on_success, result)
        return result


class Buffered(wire.Answer):
    """Payloads in a buffer, to be pushed later."""

    buffered: bool
    count: int


#: A result per item. For a buffer, the number of items. None if `on_error` got an error.
PushOutcome = list[wire.PushResult] | Buffered | None


class Push(Operation[PushOutcome]):
    """A push. Callbacks get the items as sent, each with its `result`."""

    def __init__(
        self, items: Sequence[dict[str, Any]], send: Callable[[], Awaitable[PushOutcome]]
    ) -> None:
        super().__init__(send)
        self._items = items
        self._on_duplicate: Callback | None = None

    def on_duplicate(self, callback: Callback) -> Self:
        """Call a function with the items whose transaction ids were already stored.

        Args:
            callback: A plain or a coroutine function of the items and an error.
        """
        self._on_duplicate = callback
        return self

    async def _execute(self) -> PushOutcome:
        try:
            results = await self._send()
        except PushFailed as error:
            results = error.results
            if self._on_error is None:
                await self._call_back_by_outcome(results)
                raise
            await call_back(self._on_error, self._with(error.results, "failed"), error)
        except ClientError as error:
            if self._on_error is None:
                raise
            await call_back(self._on_error, self._items, error)
            return None
        await self._call_back_by_outcome(results)
        return results

    async def _call_back_by_outcome(self, results: PushOutcome) -> None:
        if results is None or isinstance(results, Buffered):
            if self._on_success is not None:
                await call_back(self._on_success, self._items)
            return
        if self._on_duplicate is not None:
            duplicates = self._with(results, "duplicate")
            if duplicates:
                error = ClientError(f"{len(duplicates)} transaction ids were already stored")
                await call_back(self._on_duplicate, duplicates, error)
        if self._on_success is not None:
            stored = self._with(results, "queued")
            if stored:
                await call_back(self._on_success, stored)

    def _with(self, results: Sequence[wire.PushResult], status: str) -> list[dict[str, Any]]:
        return [
            {
                "transactionId": result.transaction_id,
                **item,
                "result": result,
                **({"error": result.error} if result.error else {}),
            }
            for item, result in zip(self._items, results, strict=False)
            if result.status == status
        ]

    def __repr__(self) -> str:
        return f"<Push of {len(self._items)} items, sent when awaited>"


class DeadLetterQuery:
    """Queries the dead letters of a queue."""

    def __init__(self, transport: Transport, queue: str | None, group: str | None = None) -> None:
        self._transport = transport
        self._query: dict[str, Any] = {
            "queue": queue, "consumerGroup": group, "limit": 100, "offset": 0,
        }  # fmt: skip

    def limit(self, count: int) -> Self:
        """Return at most this many.

        Args:
            count: The maximum.
        """
        self._query["limit"] = max(1, count)
        return self

    def offset(self, count: int) -> Self:
        """Skip the first ones.

        Args:
            count: How many to skip.
        """
        self._query["offset"] = max(0, count)
        return self

    def partition(self, name: str | None) -> Self:
        """Return dead letters of one partition only.

        Args:
            name: The partition; None for all.
        """
        self._query["partition"] = name
        return self

    def from_(self, timestamp: str) -> Self:
        """Return failures from a time on.

        Args:
            timestamp: A time in ISO 8601.
        """
        self._query["from"] = timestamp
        return self

    def to(self, timestamp: str) -> Self:
        """Return failures up to a time.

        Args:
            timestamp: A time in ISO 8601.
        """
        self._query["to"] = timestamp
        return self

    async def get(self) -> DeadLetters:
        """Return dead letters, latest failure first, and their total number."""
        path = f"/api/v1/dlq?{query_text(self._query)}"
        found: DeadLetters | None = await self._transport.call("GET", path, wanted=DeadLetters)
        return found or DeadLetters()
