"""Owns acks and lease extensions: messages to requests, results back to messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from queenmq import wire
from queenmq.client.calls import ack_item, by_group, group_of, lease_ids, quote_name
from queenmq.client.errors import ClientError
from queenmq.client.http.retry import RetryPolicy
from queenmq.client.http.servers import affinity_key
from queenmq.client.http.transport import Transport
from queenmq.client.message import AcksAndMessages, Message, field_of

if TYPE_CHECKING:
    from queenmq.client.client import Queen


class AckResults(wire.Answer):
    """Results of several acks. `success` is true if all took effect."""

    success: bool
    results: list[wire.AckResult]


class Renewal(wire.Answer, omit_defaults=True):
    """The result of extending a lease. `error` says why it failed."""

    success: bool
    lease_id: str | None = None
    new_expires_at: str | None = None
    error: str | None = None


ACK_BATCH = "/api/v1/ack/batch"


class AckClient:
    """Acks messages and extends leases."""

    def __init__(self, queen: Queen, transport: Transport) -> None:
        self._queen = queen
        self._transport = transport
        #: Whether the server ends a lease only after one ack for each message of it.
        self.counts_acks = False
        #: Whether the server can pop in the request that acks.
        self.pops_next = True

    async def ack(
        self, message: Any, status: bool | str, *, group: str | None, error: str | None
    ) -> wire.AckResult | AckResults:
        """Ack. Return the server's result for a message, or `success` and `results` for a list."""
        if isinstance(message, list | tuple):
            results = await self.ack_each(message, status, group=group, error=error)
            return AckResults(success=all(one.success for one in results), results=results)
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
    ) -> list[wire.AckResult]:
        """Ack messages, one request per group. Return one result per message, in order."""
        by_place: dict[int, wire.AckResult] = {}
        for name, places in by_group(messages, group).items():
            items = [ack_item(messages[place], status, error) for place in places]
            queue = field_of(messages[places[0]], "queue")
            found = await self._send({"acknowledgments": items}, name, queue, policy)
            for place, result in zip(places, _results(found, len(places)), strict=True):
                by_place[place] = result
        return [by_place[place] for place in range(len(messages))]

    async def ack_and_pop(
        self, messages: Sequence[Message[Any]], path: str, *, policy: RetryPolicy
    ) -> tuple[list[wire.AckResult], list[Message[Any]]]:
        """Ack messages of one group and pop the next ones in the same request.

        Another implementation of the server only acks, and is not asked again.
        """
        items = [ack_item(message, True, None) for message in messages]
        body = {"acknowledgments": items, "next": path}
        found = await self._send(body, group_of(messages[0]), messages[0].queue, policy)
        if isinstance(found, list):
            self.pops_next = False
            return _results(found, len(items)), []
        popped = found.next.bind_messages(self._queen) if found.next is not None else []
        return _results(found.results, len(items)), popped

    async def _send(
        self, body: dict[str, Any], group: str | None, queue: str | None, policy: RetryPolicy | None
    ) -> list[wire.AckResult] | AcksAndMessages:
        # Use the server of the group's pops, which can wake them at once.
        key = affinity_key(queue, None, group) if queue else None
        data = self._transport.codec.encode({**body, "consumerGroup": group})
        answer = await self._transport.request("POST", ACK_BATCH, data, key=key, policy=policy)
        found: list[wire.AckResult] | AcksAndMessages = self._transport.read(
            answer, list[wire.AckResult] | AcksAndMessages, f"POST {ACK_BATCH}"
        )
        return found

    async def renew(self, what: Any, *, seconds: int) -> Renewal | list[Renewal]:
        """Extend leases. Return one result for a message or lease id, a list for a list."""
        results = [await self._extend(lease_id, seconds) for lease_id in lease_ids(what)]
        if isinstance(what, list | tuple):
            return results
        if not results:
            return Renewal(success=False, error="the message has no lease")
        return results[0]

    async def _extend(self, lease_id: str, seconds: int) -> Renewal:
        try:
            found = await self.extend(lease_id, seconds)
        except ClientError as error:
            return Renewal(success=False, lease_id=lease_id, error=str(error))
        return Renewal(success=True, lease_id=lease_id, new_expires_at=found)

    async def extend(self, lease_id: str, seconds: int) -> str | None:
        """Extend a lease, or raise. Return when it expires, if the server says so."""
        path = f"/api/v1/lease/{quote_name(lease_id)}/extend"
        answer = await self._transport.call("POST", path, {"seconds": seconds})
        return answer.get("newExpiresAt") if isinstance(answer, dict) else None


def _results(found: Any, count: int) -> list[wire.AckResult]:
    if not isinstance(found, list) or len(found) != count:
        raise ClientError(f"expected one result per ack, got {found!r:.200}")
    return found
