"""Calls about the history of brokers, by minute and hour."""

from __future__ import annotations

from typing import TypeVar, Unpack

from queenmq import wire
from queenmq.client.admin.caller import Caller
from queenmq.client.admin.queries import (
    GroupHistoryQuery,
    ParkedQuery,
    QueueHistoryQuery,
    WorkerQuery,
)

T = TypeVar("T")


class HistoryCalls(Caller):
    """Calls for the history of brokers, by queue and by worker, and for the state of PostgreSQL."""

    async def get_system_metrics(self, **query: Unpack[WorkerQuery]) -> wire.SystemMetrics:
        """Show the gauges of each worker, step by step.

        Args:
            query: `from_`, `to`, `hostname`, `workerId`.
        """
        return await self._get(wire.SystemMetrics, "/api/v1/analytics/system-metrics", query)

    async def get_worker_metrics(self, **query: Unpack[WorkerQuery]) -> wire.WorkerMetrics:
        """Show the work of all workers, step by step and in total.

        Args:
            query: `from_`, `to`, `hostname`, `workerId`.
        """
        return await self._get(wire.WorkerMetrics, "/api/v1/analytics/worker-metrics", query)

    async def get_queue_lag(self, **query: Unpack[QueueHistoryQuery]) -> list[wire.QueueLagPoint]:
        """Show how long delivered messages had waited, by queue and step.

        Args:
            query: `queue`, `from_`, `to`, `limit`.
        """
        path = "/api/v1/analytics/queue-lag"
        return await self._get(list[wire.QueueLagPoint], path, query)

    async def get_queue_ops(self, **query: Unpack[QueueHistoryQuery]) -> wire.QueueOps:
        """Show the work by queue and step.

        Args:
            query: `queue`, `from_`, `to`, `limit`.
        """
        return await self._get(wire.QueueOps, "/api/v1/analytics/queue-ops", query)

    async def get_group_lag(self, **query: Unpack[GroupHistoryQuery]) -> wire.GroupLag:
        """Show how far consumer groups were behind, by group and step.

        Args:
            query: `queue`, `consumerGroup`, `from_`, `to`, `limit`.
        """
        return await self._get(wire.GroupLag, "/api/v1/analytics/group-lag", query)

    async def get_queue_parked_replicas(self, **query: Unpack[ParkedQuery]) -> wire.ParkedPops:
        """Show waiting pops by minute, queue and worker.

        Args:
            query: `queue`, `from_`, `to`.
        """
        return await self._get(wire.ParkedPops, "/api/v1/analytics/queue-parked-replicas", query)

    async def get_postgres_stats(self) -> wire.PostgresStats:
        """Show the state of PostgreSQL."""
        return await self._get(wire.PostgresStats, "/api/v1/analytics/postgres-stats")
