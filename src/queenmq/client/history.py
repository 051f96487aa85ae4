"""Owns how `queen.admin` asks, and its calls about what brokers did by minute and hour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, Unpack

from queenmq import wire
from queenmq.client.calls import with_query
from queenmq.client.http.transport import Transport
from queenmq.client.queries import ParkedQuery, QueueHistoryQuery, WorkerQuery

T = TypeVar("T")


class Caller:
    """Sends a request and returns its answer as a Struct."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def _get(self, wanted: type[T], path: str, query: Mapping[str, Any] | None = None) -> T:
        return await self._transport.fetch("GET", with_query(path, query or {}), wanted)

    async def _post(self, wanted: type[T], path: str, body: Any) -> T:
        return await self._transport.fetch("POST", path, wanted, body)

    async def _delete(
        self, wanted: type[T], path: str, query: Mapping[str, Any] | None = None
    ) -> T:
        return await self._transport.fetch("DELETE", with_query(path, query or {}), wanted)


class HistoryCalls(Caller):
    """What brokers did, by queue and by worker, and how PostgreSQL is doing."""

    async def get_system_metrics(self, **query: Unpack[WorkerQuery]) -> wire.SystemMetrics:
        """Show the gauges of each worker, step by step.

        Args:
            query: `from_`, `to`, `hostname`, `workerId`.
        """
        return await self._get(wire.SystemMetrics, "/api/v1/analytics/system-metrics", query)

    async def get_worker_metrics(self, **query: Unpack[WorkerQuery]) -> wire.WorkerMetrics:
        """Show what all workers did, step by step and added up.

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
        """Show what was done, by queue and step.

        Args:
            query: `queue`, `from_`, `to`, `limit`.
        """
        return await self._get(wire.QueueOps, "/api/v1/analytics/queue-ops", query)

    async def get_queue_parked_replicas(self, **query: Unpack[ParkedQuery]) -> wire.ParkedPops:
        """Show waiting pops by minute, queue and worker.

        Args:
            query: `queue`, `from_`, `to`.
        """
        return await self._get(wire.ParkedPops, "/api/v1/analytics/queue-parked-replicas", query)

    async def get_postgres_stats(self) -> wire.PostgresStats:
        """Show how PostgreSQL is doing."""
        return await self._get(wire.PostgresStats, "/api/v1/analytics/postgres-stats")
