"""The routes of streams in short calls."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from tests.support.broker import Api, unique


def put(key: str, value: Any) -> dict[str, Any]:
    """An operation that puts a row of state."""
    return {"type": "upsert", "key": key, "value": value}


def drop(key: str) -> dict[str, Any]:
    """An operation that deletes a row of state."""
    return {"type": "delete", "key": key}


def out(queue: str, payload: Any, partition: str = "p", **more: Any) -> dict[str, Any]:
    """A message to push."""
    return {"queue": queue, "partition": partition, "payload": payload, **more}


class Query:
    """A registered query over a queue of its own."""

    def __init__(self, api: Api, name: str, source: str, sink: str) -> None:
        self.api = api
        self.name = name
        self.source = source
        self.sink = sink
        self.group = f"streams.{name}"
        self.id = ""

    async def register(self, config: str = "v1", **more: Any) -> Any:
        """Register; the answer with its status."""
        body = {
            "name": self.name,
            "source_queue": self.source,
            "sink_queue": self.sink,
            "config_hash": hashlib.sha256(config.encode()).hexdigest(),
            **more,
        }
        response = await self.api.http.post("/streams/v1/queries", json=body)
        answer = response.json()
        self.id = answer.get("query_id", self.id)
        return {**answer, "status": response.status_code}

    async def pop(self, batch: int = 100, **query: Any) -> list[Any]:
        """Lease messages of the source for this query."""
        return await self.api.pop(self.source, consumerGroup=self.group, batch=batch, **query)

    def body(
        self,
        place: str,
        ops: list[dict[str, Any]] | None = None,
        pushes: list[dict[str, Any]] | None = None,
        ack: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """A cycle; `ack` is the last message that it is about."""
        acked = ack and {
            "transactionId": ack["transactionId"],
            "leaseId": ack["leaseId"],
            "status": more.pop("status", "completed"),
            "count": more.pop("count", 1),
        }
        return {
            "query_id": self.id,
            "partition_id": place,
            "consumer_group": self.group,
            "state_ops": ops or [],
            "push_items": pushes or [],
            "ack": acked,
            **more,
        }

    async def cycle(self, *arguments: Any, **more: Any) -> Any:
        """Commit a cycle; the answer."""
        return await self.send(self.body(*arguments, **more))

    async def send(self, body: dict[str, Any]) -> Any:
        response = await self.api.http.post("/streams/v1/cycle", json=body)
        assert response.status_code == 200, response.text
        return response.json()

    async def state(self, partition_id: str, **ask: Any) -> dict[str, Any]:
        """Read state by key."""
        return (await self.versioned_state(partition_id, **ask))[0]

    async def versioned_state(self, partition_id: str, **ask: Any) -> tuple[dict[str, Any], int]:
        """Read state by key, and its version."""
        body = {"query_id": self.id, "partition_id": partition_id, **ask}
        response = await self.api.http.post("/streams/v1/state/get", json=body)
        assert response.status_code == 200, response.text
        answer = response.json()
        assert answer["success"], answer
        return {row["key"]: row["value"] for row in answer["rows"]}, answer["version"]

    async def show(self) -> Any:
        """The query as operators see it."""
        response = await self.api.http.get(f"/api/v1/streams/{self.name}")
        assert response.status_code == 200, response.text
        return response.json()


async def new_query(api: Api, *payloads: Any, partition: str = "p", **options: Any) -> Query:
    """Register a query over a new queue with these messages in one partition."""
    query = Query(api, unique("query"), unique("source"), unique("sink"))
    if options:
        await api.configure(query.source, **options)
    if payloads:
        await api.push(query.source, *payloads, partition=partition)
    await query.register()
    return query
