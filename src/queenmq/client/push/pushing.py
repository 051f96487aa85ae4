"""Owns one push request: its answer per item, and pushes that the server has put off."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import msgspec

from queenmq import wire
from queenmq.client.calls import quoted
from queenmq.client.errors import OperationFailed, RequestFailed, ResourceNotFound
from queenmq.client.http.retry import RetryPolicy
from queenmq.client.http.transport import Transport
from queenmq.client.options import Options

Results = list[wire.PushResult]

PUSH = "/api/v1/push"
_ENDED = {"completed", "failed", "discarded"}
_POLLING = RetryPolicy(base_delay=0.05, max_retry_delay=1.0)


class Pusher:
    """Sends items; every answer has one result per item, in order."""

    def __init__(self, transport: Transport, options: Options) -> None:
        self._transport = transport
        self._polls = options["queued_operation_behavior"] == "poll"
        self._timeout = options["operation_timeout"]

    async def send(self, items: Sequence[dict[str, Any]], *, key: str | None) -> Results:
        """Push once; items that were refused alone have the status `failed`."""
        if not items:
            return []
        body = self._transport.codec.encode({"items": items})
        answer = await self._transport.request("POST", PUSH, body, key=key)
        results: Results = self._transport.read(answer, Results, f"POST {PUSH}")
        if len(results) != len(items):
            raise RequestFailed(
                answer.status, f"expected one result per item, got {results!r:.200}", f"POST {PUSH}"
            )
        return await self._finished(results) if self._polls else results

    async def _finished(self, results: Results) -> Results:
        """The results with those of operations that have ended meanwhile in their places."""
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
        """The operation, once it has ended."""
        path = f"/api/v1/operations/{quoted(operation_id)}"
        loop = asyncio.get_running_loop()
        deadline, look, status = loop.time() + self._timeout, 0, "unknown"
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
            look += 1
            if loop.time() >= deadline:
                reason = f"it has not ended after {self._timeout:g} s; ask for it again later"
                raise OperationFailed(operation_id, status, reason)
            await self._transport.pause(_POLLING.backoff(look, random=random.random))
