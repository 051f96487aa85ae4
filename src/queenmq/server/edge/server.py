"""Listens on a socket and creates a connection for every client."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from queenmq.server.edge.connection import Connection
from queenmq.server.edge.shared import Edge


class EdgeServer:
    """The listening side of the edge."""

    def __init__(
        self,
        edge: Edge,
        *,
        backlog: int,
        make: Callable[[], asyncio.Protocol] | None = None,
    ) -> None:
        self._edge = edge
        self._make = make or (lambda: Connection(edge))
        self._backlog = backlog
        self._listener: asyncio.Server | None = None

    async def start(self, sock: socket.socket) -> None:
        """Accept connections."""
        self._edge.crowd.start()
        self._listener = await asyncio.get_running_loop().create_server(
            self._make, sock=sock, backlog=self._backlog
        )

    def close(self) -> None:
        """Stop accepting connections. Open ones continue."""
        if self._listener is not None:
            self._listener.close()

    async def stop(self, timeout_s: float) -> None:
        """Wait for current requests, then end all connections."""
        await self._edge.crowd.stop(timeout_s)
        self._edge.threads.shutdown(wait=False, cancel_futures=True)
