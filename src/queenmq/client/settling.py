"""Owns acks and lease extensions: messages to requests, results back to messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from queenmq.client.calls import ack_item, by_group, lease_ids, quoted
from queenmq.client.errors import ClientError
from queenmq.client.message import field_of
from queenmq.client.retry import RetryPolicy
from queenmq.client.servers import affinity_key
from queenmq.client.transport import Transport

ACK_BATCH = "/api/v1/ack/batch"


class Settler:
    """Settles messages."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        #: Whether the server ends a lease only after one ack for each message of it.
        self.counts_acks = False

    async def ack(
        self, message: Any, status: bool | str, *, group: str | None, error: str | None
    ) -> dict[str, Any]:
        """One message: the server's result. A list: `success` of all, and `results` of each."""
        if isinstance(message, list | tuple):
            results = await self.ack_each(message, status, group=group, error=error)
            return {"success": all(one["success"] for one in results), "results": results}
        (result,) = await self.ack_each([message], status, group=group, error=error)
        return result

    async def ack_each(
        self,
        messages: Sequence[Any],
        status: bool | str = True,
        *,
        group: str | None = None,
        error: str | None = None,
        policy: RetryPolicy | None = None,
    ) -> list[dict[str, Any]]:
        """One result per message, in order; messages of several groups go in several requests."""
        results: list[dict[str, Any]] = [{}] * len(messages)
        for name, places in by_group(messages, group).items():
            items = [ack_item(messages[place], status, error) for place in places]
            body = self._transport.codec.encode({"acknowledgments": items, "consumerGroup": name})
            # Where the group's pops go: that server can wake them at once.
            queue = field_of(messages[places[0]], "queue")
            key = affinity_key(queue, None, name) if queue else None
            answer = await self._transport.request("POST", ACK_BATCH, body, key=key, policy=policy)
            found = self._transport.read(answer, Any, f"POST {ACK_BATCH}")
            if not isinstance(found, list) or len(found) != len(places):
                raise ClientError(f"expected one result per ack, got {found!r:.200}")
            for place, result in zip(places, found, strict=True):
                results[place] = result
        return results

    async def renew(self, what: Any, *, seconds: int) -> Any:
        """One result for a message or lease id, a list of them for a list."""
        results = [await self._extend(lease_id, seconds) for lease_id in lease_ids(what)]
        if isinstance(what, list | tuple):
            return results
        if not results:
            return {"success": False, "error": "the message has no lease"}
        return results[0]

    async def _extend(self, lease_id: str, seconds: int) -> dict[str, Any]:
        try:
            found = await self.extend(lease_id, seconds)
        except ClientError as error:
            return {"leaseId": lease_id, "success": False, "error": str(error)}
        return {"leaseId": lease_id, "success": True, "newExpiresAt": found.get("newExpiresAt")}

    async def extend(self, lease_id: str, seconds: int) -> Mapping[str, Any]:
        """Extend a lease, or raise."""
        path = f"/api/v1/lease/{quoted(lease_id)}/extend"
        answer = await self._transport.call("POST", path, {"seconds": seconds})
        return answer if isinstance(answer, dict) else {}
