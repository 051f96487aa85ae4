"""The calls that a stream makes: register, read state, commit a cycle."""

from __future__ import annotations

from typing import Any

from queenmq.client.errors import ClientError, RequestFailed
from queenmq.client.http.transport import Transport
from queenmq.client.streams.batch import Plan


class StreamRefused(ClientError):
    """The query is known with another configuration."""


class CycleRefused(ClientError):
    """A cycle was refused as a whole; nothing of it was done."""


class StreamCalls:
    """The calls of one running query."""

    def __init__(self, transport: Transport, group: str) -> None:
        self._transport = transport
        self._group = group
        self.query_id = ""

    async def register(
        self, name: str, source: str, sink: str | None, config_hash: str, *, reset: bool
    ) -> None:
        """Register the query, or resume it."""
        body = {
            "name": name,
            "source_queue": source,
            "sink_queue": sink,
            "config_hash": config_hash,
            "reset": reset,
        }
        try:
            answer = await self._transport.call("POST", "/streams/v1/queries", body)
        except RequestFailed as error:
            if error.status == 409:
                raise StreamRefused(
                    f"{error.reason}; run it with reset=True to wipe its state, or change query_id"
                ) from None
            raise
        self.query_id = answer["query_id"]

    async def read_state(self, partition_id: str) -> tuple[dict[str, Any], int | None]:
        """Return all state of a partition, and its version."""
        body = {"query_id": self.query_id, "partition_id": partition_id}
        answer = await self._transport.call("POST", "/streams/v1/state/get", body)
        if not answer["success"]:
            raise CycleRefused(answer["error"])
        state = {row["key"]: row["value"] for row in answer["rows"]}
        return state, answer.get("version")

    async def commit(
        self,
        partition_id: str,
        plan: Plan,
        version: int | None,
        *,
        ack: Any = None,
        keeps_lease: bool = False,
    ) -> None:
        """Commit a plan, with the ack of the last message that it is about.

        The broker knows a copy of a cycle, so it may be sent again after a lost answer.
        """
        acked = ack and {
            "transactionId": ack.transaction_id,
            "leaseId": ack.lease_id,
            "status": "completed",
            "count": plan.taken,
        }
        body = {
            "query_id": self.query_id,
            "partition_id": partition_id,
            "consumer_group": self._group,
            "state_ops": plan.ops,
            "push_items": plan.pushes,
            "ack": acked,
            "release_lease": not keeps_lease,
            "state_version": version,
        }
        answer = await self._transport.call("POST", "/streams/v1/cycle", body)
        if not answer["success"]:
            raise CycleRefused(answer["error"])
