"""Calls about traces of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from queenmq import wire
from queenmq.client.admin.caller import Caller
from queenmq.client.admin.queries import PageQuery
from queenmq.client.calls import quote_name


class TraceCalls(Caller):
    """Records and finds traces."""

    async def add_trace(
        self,
        partition_id: str,
        transaction_id: str,
        data: Any,
        *,
        names: str | Sequence[str] = (),
        event_type: str = "info",
        group: str | None = None,
    ) -> wire.TraceAdded:
        """Record a trace of a message. For a popped one, use `message.trace`.

        Args:
            partition_id: The message's partition.
            transaction_id: The message's name there.
            data: Any JSON value, up to 64 KiB.
            names: Names to find it by.
            event_type: A word for its kind.
            group: The consumer group that records it.
        """
        body = {
            "partitionId": partition_id,
            "transactionId": transaction_id,
            "data": data,
            "traceNames": [names] if isinstance(names, str) else list(names),
            "eventType": event_type,
            "consumerGroup": group,
        }
        return await self._post(wire.TraceAdded, "/api/v1/traces", body)

    async def get_traces_by_name(
        self, trace_name: str, **query: Unpack[PageQuery]
    ) -> wire.NamedTraceList:
        """Find traces by their name, newest first.

        Args:
            trace_name: The name.
            query: `limit`, `offset`.
        """
        path = f"/api/v1/traces/by-name/{quote_name(trace_name)}"
        return await self._get(wire.NamedTraceList, path, query)

    async def get_trace_names(self, **query: Unpack[PageQuery]) -> wire.TraceNameList:
        """List the names of traces, last used first.

        Args:
            query: `limit`, `offset`.
        """
        return await self._get(wire.TraceNameList, "/api/v1/traces/names", query)

    async def get_traces_for_message(
        self, partition_id: str, transaction_id: str
    ) -> wire.TraceList:
        """List all traces of a message, oldest first.

        Args:
            partition_id: The message's partition.
            transaction_id: The message's name there.
        """
        path = f"/api/v1/traces/{quote_name(partition_id)}/{quote_name(transaction_id)}"
        return await self._get(wire.TraceList, path)

    async def get_deliveries(
        self, partition_id: str, transaction_id: str
    ) -> wire.MessageDeliveries:
        """Show when groups got and passed a message, where its queue keeps that.

        Args:
            partition_id: The message's partition.
            transaction_id: The message's name there.
        """
        path = f"/api/v1/deliveries/{quote_name(partition_id)}/{quote_name(transaction_id)}"
        return await self._get(wire.MessageDeliveries, path)
