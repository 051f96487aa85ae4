"""Sends push requests: one answer per item, and queued pushes that end later."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import msgspec

from queenmq import wire
from queenmq.client.calls import are_named, name_items, quote_name
from queenmq.client.errors import OperationFailed, RequestFailed, ResourceNotFound
from queenmq.client.http.retry import RetryPolicy
from queenmq.client.http.transport import Transport
from queenmq.client.options import Options
from queenmq.ids import random_uuid

Results = list[wire.PushResult]

PUSH = "/api/v1/push"
PUSH_ONCE = "/api/v1/push/once"
#: The answers of a server without this route.
_NO_SUCH_ROUTE = (404, 405)
#: How long to name messages after that. An old server may be upgraded.
_NAMED_S = 60.0
_ENDED = {"completed", "failed", "discarded"}
_POLLING = RetryPolicy(base_delay=0.05, max_retry_delay=1.0)


class Pusher:
    """Sends items. Every answer has one result per item, in order."""

    def __init__(self, transport: Transport, options: Options) -> None:
        self._transport = transport
        self._polls = options["queued_operation_behavior"] == "poll"
        self._timeout = options["operation_timeout"]
        #: Until then messages get transaction ids, because a server knows no idempotency keys.
        self._named_until = float("-inf")

    async def send(
        self, items: list[dict[str, Any]], *, key: str | None, once: str | None = None
    ) -> Results:
        """Push exactly once, with retries. Refused items have the status `failed`.

        Several messages without names share one idempotency key, `once` or a new one. A single
        message is as cheap to name. `key` chooses the server.
        """
        if not items:
            return []
        results = None
        if len(items) > 1 and self._now() >= self._named_until and not are_named(items):
            results = await self._send_once(items, key, once or str(random_uuid()))
        if results is None:
            data = self._transport.codec.encode_payloads({"items": name_items(items)})
            results = await self._send(PUSH, data, len(items), key)
        return await self._replace_finished(results) if self._polls else results

    async def send_encoded(self, items: Sequence[bytes], *, key: str | None) -> Results:
        """Push items that are JSON and have names, as `send` does."""
        data = b'{"items":[' + b",".join(items) + b"]}"
        results = await self._send(PUSH, data, len(items), key)
        return await self._replace_finished(results) if self._polls else results

    async def _send_once(
        self, items: list[dict[str, Any]], key: str | None, once: str
    ) -> Results | None:
        """Push with an idempotency key. Return None if the server knows no keys."""
        data = self._transport.codec.encode_payloads({"items": items, "idempotencyKey": once})
        try:
            return await self._send(PUSH_ONCE, data, len(items), key)
        except RequestFailed as error:
            # A server that gave no clear answer before may have stored it under the key.
            if error.status not in _NO_SUCH_ROUTE or error.is_repeated:
                raise
        self._named_until = self._now() + _NAMED_S
        return None

    async def _send(self, path: str, data: bytes, count: int, key: str | None) -> Results:
        answer = await self._transport.request("POST", path, data, key=key)
        results: Results = self._transport.read(answer, Results, f"POST {path}")
        if len(results) != count:
            raise RequestFailed(
                answer.status, f"expected one result per item, got {results!r:.200}", f"POST {path}"
            )
        return results

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _replace_finished(self, results: Results) -> Results:
        """Replace the results of queued items by those of their ended operations."""
        waiting: dict[str, list[int]] = {}
        for index, one in enumerate(results):
            if one.status == "buffered" and one.operation_id:
                waiting.setdefault(one.operation_id, []).append(index)
        for operation_id, places in waiting.items():
            ended = await self._poll(operation_id)
            stored = msgspec.convert(ended.get("result") or [], Results)
            for position, index in enumerate(places):
                if position < len(stored):
                    results[index] = stored[position]
                elif ended["status"] != "completed":
                    reason = ended.get("error") or f"operation {operation_id} is {ended['status']}"
                    results[index] = msgspec.structs.replace(
                        results[index], status="failed", error=reason
                    )
        return results

    async def _poll(self, operation_id: str) -> dict[str, Any]:
        """Return the operation, once it has ended."""
        path = f"/api/v1/operations/{quote_name(operation_id)}"
        loop = asyncio.get_running_loop()
        deadline, polls, status = loop.time() + self._timeout, 0, "unknown"
        while True:
            try:
                found = await self._transport.call("GET", path)
            except ResourceNotFound:
                raise OperationFailed(
                    operation_id, "unknown", "the server does not know it; push again"
                ) from None
            status = found.get("status", "") if isinstance(found, dict) else ""
            if status in _ENDED:
                ended: dict[str, Any] = found
                return ended
            polls += 1
            if loop.time() >= deadline:
                reason = f"it has not ended after {self._timeout:g} s; ask for it again later"
                raise OperationFailed(operation_id, status, reason)
            await self._transport.pause(_POLLING.backoff(polls, random=random.random))
