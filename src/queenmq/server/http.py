"""The HTTP server: uvicorn, with a stop that answers parked polls first."""

from __future__ import annotations

import contextlib
import gc
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator

import uvicorn

from queenmq.server.http_protocol import bounded_protocol
from queenmq.server.orders import BrokerOrders
from queenmq.server.wiring import Broker
from queenmq.settings import Settings

#: Parked polls keep their connection this long between requests.
_KEEP_ALIVE_S = 75
_BACKLOG = 2048


def calm_garbage_collector() -> None:
    """Keep full collections rare: each stops all requests for 20 to 30 ms (push p99 28 -> 19 ms).

    What the start has built lives as long as the process and is not looked at again. Requests leave
    their garbage young, where collecting it is cheap.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 100)


class _Server(uvicorn.Server):
    """Stops in our order: no new connections, parked polls answered, the rest finished."""

    def __init__(
        self, config: uvicorn.Config, broker: Broker, on_ready: Callable[[str | None], None]
    ) -> None:
        super().__init__(config)
        self._broker = broker
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self._broker.start()
        await super().startup(sockets)
        calm_garbage_collector()
        self._on_ready(self._broker.database_id)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self._broker.begin_stop()
        await super().shutdown(sockets)
        await self._broker.stop()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unlike uvicorn's own: the signal is not raised again, because the process has more to
        stop.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self.handle_exit)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def bind(settings: Settings) -> socket.socket:
    """The listening socket; may be handed to several processes."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((settings.host, settings.port))
    sock.listen(_BACKLOG)
    sock.set_inheritable(True)
    return sock


def address_of(sock: socket.socket) -> str:
    """The URL under which the socket is reached."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    sock: socket.socket, orders: BrokerOrders, *, on_ready: Callable[[str | None], None]
) -> bool:
    """Serve until told to stop; whether the start succeeded.

    `on_ready` is told which database it is, if that is known by then.
    """
    settings = orders.settings
    broker = Broker(orders)
    config = uvicorn.Config(
        broker.app,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=bounded_protocol(settings.max_header_bytes),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, settings.shutdown_timeout_ms // 1000),
    )
    server = _Server(config, broker, on_ready)
    server.run(sockets=[sock])
    return server.started
