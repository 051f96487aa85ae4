"""Calls about consumer groups."""

from __future__ import annotations

from typing import Any, Unpack

from queenmq import wire
from queenmq.client.admin.caller import Caller
from queenmq.client.admin.queries import GroupPartitionQuery, SeekQuery
from queenmq.client.calls import quote_name


def _group_on(group: str, queue: str, action: str = "") -> str:
    return f"/api/v1/consumer-groups/{quote_name(group)}/queues/{quote_name(queue)}{action}"


class GroupCalls(Caller):
    """Lists, moves and deletes consumer groups."""

    async def list_consumer_groups(self) -> list[wire.ConsumerGroup]:
        """List consumer groups with their lag, one element per group and queue."""
        return await self._get(list[wire.ConsumerGroup], "/api/v1/consumer-groups")

    async def get_consumer_group(self, name: str) -> dict[str, wire.GroupQueue]:
        """Show a group's partitions by queue; empty for an unknown group.

        Args:
            name: The consumer group.
        """
        path = f"/api/v1/consumer-groups/{quote_name(name)}"
        return await self._get(dict[str, wire.GroupQueue], path)

    async def get_lagging_consumers(self, min_lag_seconds: int = 60) -> list[wire.LaggingPartition]:
        """List partitions in which a group is behind, worst first.

        Args:
            min_lag_seconds: Only partitions whose oldest message is at least this old.
        """
        query = {"minLagSeconds": min_lag_seconds}
        path = "/api/v1/consumer-groups/lagging"
        return await self._get(list[wire.LaggingPartition], path, query)

    async def delete_consumer_group_for_queue(
        self, group: str, queue: str, delete_metadata: bool = True
    ) -> wire.GroupDeleted:
        """Delete a group on one queue.

        Args:
            group: The consumer group.
            queue: The queue.
            delete_metadata: Whether to delete its start as well.
        """
        query = {"deleteMetadata": delete_metadata}
        return await self._delete(wire.GroupDeleted, _group_on(group, queue), query)

    async def get_group_partitions(
        self, group: str, queue: str, **query: Unpack[GroupPartitionQuery]
    ) -> wire.GroupPartitions:
        """List the partitions of a group on a queue, a page at a time.

        Args:
            group: The group.
            queue: The queue.
            query: `search`, `sort`, `leased`, `limit`, `offset`.
        """
        return await self._get(wire.GroupPartitions, _group_on(group, queue, "/partitions"), query)

    async def seek_consumer_group(
        self, group: str, queue: str, options: dict[str, Any] | None = None
    ) -> wire.GroupMoved:
        """Move a group on a queue.

        Args:
            group: The consumer group.
            queue: The queue.
            options: `{"toEnd": True}` or `{"timestamp": ...}`.
        """
        return await self._post(wire.GroupMoved, _group_on(group, queue, "/seek"), options or {})

    async def seek_partition(
        self, group: str, queue: str, partition: str, options: dict[str, Any]
    ) -> wire.GroupMovedInPartition:
        """Move a group on one partition.

        Args:
            group: The consumer group.
            queue: The queue.
            partition: The partition.
            options: `{"toEnd": True}`, `{"timestamp": ...}` or `{"seq": ...}`, the next message.
        """
        path = _group_on(group, queue, f"/partitions/{quote_name(partition)}/seek")
        return await self._post(wire.GroupMovedInPartition, path, options)

    async def preview_seek(
        self, group: str, queue: str, **query: Unpack[SeekQuery]
    ) -> wire.SeekPreview:
        """Count the messages that a seek would redeliver or skip, without moving anything.

        Args:
            group: The consumer group.
            queue: The queue.
            query: `toEnd`, `timestamp`, `partition`, and with a partition `seq`.
        """
        return await self._get(wire.SeekPreview, _group_on(group, queue, "/seek-preview"), query)

    async def release_lease(self, group: str, queue: str, partition: str) -> wire.LeaseEnded:
        """End the lease of a group in one partition, so that its messages can be popped again.

        Args:
            group: The consumer group.
            queue: The queue.
            partition: The partition.
        """
        path = _group_on(group, queue, f"/partitions/{quote_name(partition)}/release")
        return await self._post(wire.LeaseEnded, path, {})

    async def pause_consumer_group(self, group: str) -> wire.GroupPaused:
        """Pause a group on all queues and brokers, until it is resumed.

        Args:
            group: The consumer group.
        """
        path = f"/api/v1/consumer-groups/{quote_name(group)}/pause"
        return await self._post(wire.GroupPaused, path, {})

    async def resume_consumer_group(self, group: str) -> wire.GroupPaused:
        """Serve a paused group again.

        Args:
            group: The consumer group.
        """
        path = f"/api/v1/consumer-groups/{quote_name(group)}/resume"
        return await self._post(wire.GroupPaused, path, {})
