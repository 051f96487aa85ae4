"""A queue with a story: hostile names, two groups, a lease, a failed message, a trace."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tests.support.broker import Api, unique

HOSTILE = "<img src=x onerror=alert(1)>"


class Scene:
    """Names of what `play` made, and the places of the dashboard that show it."""

    def __init__(self) -> None:
        self.queue = f"{unique()} {HOSTILE}"
        self.partition = f"lane {HOSTILE}"
        self.partition_id = ""
        self.ids: list[str] = []

    @property
    def queue_place(self) -> str:
        return f"#/queues/{quote(self.queue, safe='')}"

    @property
    def partition_place(self) -> str:
        return f"{self.queue_place}/partitions/{quote(self.partition, safe='')}"

    def message_place(self, index: int) -> str:
        return f"#/messages/{self.partition_id}/{quote(self.ids[index], safe='')}"

    async def play(self, url: str) -> Scene:
        """Group `fast` passes four of six messages and fails one, `slow` holds the first two."""
        api = Api(url)
        await api.configure(self.queue, retryLimit=3, retryDelay=600_000, leaseTime=300)
        items = [
            {
                "queue": self.queue,
                "partition": self.partition,
                "payload": {"n": n, "text": HOSTILE},
                "transactionId": f"{n} {HOSTILE}",
            }
            for n in range(1, 7)
        ]
        pushed = await api.push_items(items)
        self.partition_id = pushed[0]["partition_id"]
        self.ids = [one["transaction_id"] for one in pushed]
        start = {"subscriptionMode": "all"}
        taken = await self.pop(api, "fast", 4, **start)
        await api.ack(*taken, group="fast")
        failed = await self.pop(api, "fast", 1)
        await api.ack(*failed, status="failed", group="fast", error=f"no {HOSTILE}")
        await self.pop(api, "slow", 2, **start)
        trace = {
            "transactionId": self.ids[0],
            "partitionId": self.partition_id,
            "consumerGroup": "fast",
            "data": {"said": HOSTILE},
            "traceNames": [HOSTILE],
        }
        response = await api.http.post("/api/v1/traces", json=trace)
        assert response.status_code == 201, response.text
        await api.close()
        return self

    async def pop(self, api: Api, group: str, batch: int, **query: Any) -> list[Any]:
        """Pop from the partition."""
        queue, partition = quote(self.queue, safe=""), quote(self.partition, safe="")
        return await api.pop(queue, partition=partition, consumerGroup=group, batch=batch, **query)


async def ask(url: str, path: str, **query: Any) -> Any:
    """One GET; the decoded answer."""
    api = Api(url)
    response = await api.http.get(path, params=query)
    await api.close()
    return response.json() if response.status_code == 200 else response.status_code


async def cursor_of(url: str, scene: Scene, group: str) -> Any:
    """Return the cursor of a group in the partition of a scene."""
    queue, partition = quote(scene.queue, safe=""), quote(scene.partition, safe="")
    found = await ask(url, f"/api/v1/resources/queues/{queue}/partitions/{partition}")
    return next(one for one in found["groups"] if one["consumerGroup"] == group)
