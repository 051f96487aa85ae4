"""Calls about queues and their partitions."""

from __future__ import annotations

from typing import Unpack

from queenmq import wire
from queenmq.client.admin.caller import Caller
from queenmq.client.admin.queries import PartitionQuery, QueuePartitionQuery, QueueQuery
from queenmq.client.calls import quote_name


class QueueCalls(Caller):
    """Lists, shows, clears and deletes queues and partitions."""

    async def get_overview(self) -> wire.Overview:
        """Return the totals of queues, messages, lags and rates."""
        return await self._get(wire.Overview, "/api/v1/resources/overview")

    async def get_namespaces(self) -> wire.NamespaceList:
        """List the namespaces that queues name."""
        return await self._get(wire.NamespaceList, "/api/v1/resources/namespaces")

    async def get_tasks(self) -> wire.TaskList:
        """List the tasks that queues name."""
        return await self._get(wire.TaskList, "/api/v1/resources/tasks")

    async def list_queues(self, **query: Unpack[QueueQuery]) -> wire.QueueList:
        """List queues with their counts, newest first.

        Args:
            query: `search` for a part of the name, `limit`, `offset`.
        """
        return await self._get(wire.QueueList, "/api/v1/resources/queues", query)

    async def get_queue(self, name: str) -> wire.QueueDetail:
        """Show a queue with its options and partitions.

        Args:
            name: The queue.
        """
        return await self._get(wire.QueueDetail, f"/api/v1/resources/queues/{quote_name(name)}")

    async def get_partitions(self, **query: Unpack[PartitionQuery]) -> wire.PartitionList:
        """List the partitions of a queue or of all, by queue and name.

        Args:
            query: `queue`, `limit`, `offset`.
        """
        return await self._get(wire.PartitionList, "/api/v1/resources/partitions", query)

    async def get_queue_partitions(
        self, queue: str, **query: Unpack[QueuePartitionQuery]
    ) -> wire.QueuePartitions:
        """List the partitions of a queue with a summary of their groups.

        Args:
            queue: The queue.
            query: `search` for a part of the name, `sort` by `name`, `depth` or `newest`,
                `blocked` for those in which a group is blocked, `limit`, `offset`.
        """
        path = f"/api/v1/resources/queues/{quote_name(queue)}/partitions"
        return await self._get(wire.QueuePartitions, path, query)

    async def get_partition(self, queue: str, partition: str) -> wire.PartitionDetail:
        """Show a partition with the cursor and the lease of each group.

        Args:
            queue: The queue.
            partition: The partition.
        """
        path = f"/api/v1/resources/queues/{quote_name(queue)}/partitions/{quote_name(partition)}"
        return await self._get(wire.PartitionDetail, path)

    async def clear_queue(self, name: str, partition: str | None = None) -> wire.QueueCleared:
        """Delete all messages of a queue, or of one partition.

        Args:
            name: The queue.
            partition: Only this partition.
        """
        path = f"/api/v1/queues/{quote_name(name)}/clear"
        return await self._delete(wire.QueueCleared, path, {"partition": partition})

    async def delete_partition(self, queue: str, partition: str) -> wire.PartitionDeleted:
        """Delete a partition with its messages. Raises ResourceNotFound if there is none.

        Args:
            queue: The queue.
            partition: The partition.
        """
        path = f"/api/v1/resources/queues/{quote_name(queue)}/partitions/{quote_name(partition)}"
        return await self._delete(wire.PartitionDeleted, path)
