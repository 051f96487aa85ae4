"""Owns how `queen.admin` sends a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from queenmq.client.calls import with_query
from queenmq.client.http.transport import Transport

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
