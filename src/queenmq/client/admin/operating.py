"""Calls about the broker: health, maintenance, queued pushes, leases and transactions by hand."""

from __future__ import annotations

from typing import Any, Unpack

from queenmq import wire
from queenmq.client.admin.caller import Caller
from queenmq.client.admin.queries import OperationQuery, PageQuery
from queenmq.client.calls import quote_name


class OperatingCalls(Caller):
    """Watches and steers a broker."""

    async def extend_lease(self, lease_id: str, *, seconds: int = 60) -> wire.LeaseExtended:
        """Extend a live lease. Raises ResourceNotFound if it is no longer live.

        Args:
            lease_id: The lease.
            seconds: How long it lasts from now.
        """
        path = f"/api/v1/lease/{quote_name(lease_id)}/extend"
        return await self._post(wire.LeaseExtended, path, {"seconds": seconds})

    async def run_transaction(self, body: dict[str, Any]) -> wire.TransactionAnswer:
        """Run a transaction given as a request body. `success` says whether it was committed.

        Args:
            body: The body of `POST /api/v1/transaction`.
        """
        return await self._post(wire.TransactionAnswer, "/api/v1/transaction", body)

    async def health(self) -> wire.Health:
        """Show what a broker can do now. Raises ServerBusy if it is unhealthy."""
        return await self._get(wire.Health, "/health")

    async def metrics(self) -> wire.Metrics:
        """Show the work and the resource use of the broker."""
        return await self._get(wire.Metrics, "/metrics")

    async def get_series(self) -> str:
        """Return the broker's metrics in Prometheus format."""
        answer = await self._transport.request("GET", "/metrics/prometheus")
        return answer.body.decode()

    async def get_shared_state(self) -> wire.BrokerMemory:
        """Show the broker's view of the state that all brokers share."""
        return await self._get(wire.BrokerMemory, "/api/v1/system/shared-state")

    async def get_maintenance_mode(self) -> wire.MaintenanceState:
        """Return whether pushes are held back, and the pushes on the broker's disk."""
        return await self._get(wire.MaintenanceState, "/api/v1/system/maintenance")

    async def set_maintenance_mode(self, enabled: bool) -> wire.MaintenanceSwitched:
        """Make all brokers keep pushes on disk, or store them again.

        Args:
            enabled: Whether to keep them on disk.
        """
        path = "/api/v1/system/maintenance"
        return await self._post(wire.MaintenanceSwitched, path, {"enabled": enabled})

    async def get_pop_maintenance_mode(self) -> wire.PopMaintenance:
        """Show whether pops are paused."""
        return await self._get(wire.PopMaintenance, "/api/v1/system/maintenance/pop")

    async def set_pop_maintenance_mode(self, enabled: bool) -> wire.PopMaintenance:
        """Pause all pops, or serve them again.

        Args:
            enabled: Whether to pause them.
        """
        path = "/api/v1/system/maintenance/pop"
        return await self._post(wire.PopMaintenance, path, {"enabled": enabled})

    async def list_operations(self, **query: Unpack[OperationQuery]) -> wire.OperationList:
        """List queued pushes, newest first.

        Args:
            query: `status`, `queue`, `limit`, `offset`.
        """
        return await self._get(wire.OperationList, "/api/v1/operations", query)

    async def get_operation(self, operation_id: str) -> wire.Operation:
        """Show an operation, with one result per item once it is completed.

        Args:
            operation_id: Its id, as a push result names it.
        """
        return await self._get(wire.Operation, f"/api/v1/operations/{quote_name(operation_id)}")

    async def get_operation_stats(self) -> wire.OperationStats:
        """Show how many operations wait, their age and how fast they run."""
        return await self._get(wire.OperationStats, "/api/v1/operations/stats")

    async def retry_operation(self, operation_id: str) -> wire.OperationDecided:
        """Retry a failed operation.

        Args:
            operation_id: Its id.
        """
        path = f"/api/v1/operations/{quote_name(operation_id)}/retry"
        return await self._post(wire.OperationDecided, path, {})

    async def discard_operation(self, operation_id: str) -> wire.OperationDecided:
        """Drop an operation that is not stored yet, with its messages.

        Args:
            operation_id: Its id.
        """
        path = f"/api/v1/operations/{quote_name(operation_id)}/discard"
        return await self._post(wire.OperationDecided, path, {})

    async def list_set_aside(self, **query: Unpack[PageQuery]) -> wire.AsideList:
        """List pushes that this broker accepted and could not store, oldest first.

        Args:
            query: `limit`, `offset`.
        """
        return await self._get(wire.AsideList, "/api/v1/operations/aside", query)

    async def retry_all_operations(self) -> wire.OperationsRetried:
        """Retry everything that this broker has set aside, and every failed operation."""
        return await self._post(wire.OperationsRetried, "/api/v1/operations/retry", {})
