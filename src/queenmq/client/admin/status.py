"""Calls about the state of queues."""

from __future__ import annotations

from typing import Unpack

from queenmq import wire
from queenmq.client.admin.caller import Caller
from queenmq.client.admin.queries import AnalyticsQuery, PageQuery, ScopeQuery, StatusQuery
from queenmq.client.calls import quote_name


class StatusCalls(Caller):
    """Shows counts of queues, and explains why a group does not move on."""

    async def why(
        self, queue: str, *, partition: str | None = None, group: str | None = None
    ) -> wire.Diagnosis:
        """Explain why a queue, or one partition of it, does not move for a group.

        Args:
            queue: The queue.
            partition: Only this partition.
            group: The consumer group; by default the default one.
        """
        query = {"partition": partition, "consumerGroup": group}
        return await self._get(wire.Diagnosis, f"/api/v1/why/{quote_name(queue)}", query)

    async def get_status(self, **query: Unpack[StatusQuery]) -> wire.Status:
        """Show throughput in steps, and the state of queues.

        Args:
            query: `queue`, `namespace`, `task`, `from_`, `to`.
        """
        return await self._get(wire.Status, "/api/v1/status", query)

    async def get_queue_stats(self, **query: Unpack[ScopeQuery]) -> wire.QueueStatsList:
        """List queues with their counts.

        Args:
            query: `namespace`, `task`, `limit`, `offset`.
        """
        return await self._get(wire.QueueStatsList, "/api/v1/status/queues", query)

    async def get_queue_detail(self, name: str, **query: Unpack[PageQuery]) -> wire.QueueStatus:
        """Show a queue with a page of its partitions.

        Args:
            name: The queue.
            query: `limit` and `offset` of the partitions.
        """
        return await self._get(wire.QueueStatus, f"/api/v1/status/queues/{quote_name(name)}", query)

    async def get_queue_messages(
        self, name: str, **query: Unpack[PageQuery]
    ) -> list[wire.MessageHead]:
        """List the newest messages of a queue, without payloads.

        Args:
            name: The queue.
            query: `limit`, `offset`.
        """
        path = f"/api/v1/status/queues/{quote_name(name)}/messages"
        return await self._get(list[wire.MessageHead], path, query)

    async def get_buffers(self) -> wire.Buffers:
        """Show the spool of the broker that answers."""
        return await self._get(wire.Buffers, "/api/v1/status/buffers")

    async def get_analytics(self, **query: Unpack[AnalyticsQuery]) -> wire.Analytics:
        """Count messages pushed in each minute, hour or day.

        Args:
            query: `interval`, `queue`, `namespace`, `task`, `from_`, `to`.
        """
        return await self._get(wire.Analytics, "/api/v1/status/analytics", query)

    async def refresh_consumer_stats(self) -> wire.StatsRefreshed:
        """Compute the overview again."""
        return await self._post(wire.StatsRefreshed, "/api/v1/stats/refresh", {})
