"""The broker's process: starts the broker and the edge, and stops them in the right order."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Callable

from queenmq.server.edge.crowd import Crowd, CrowdLimits, connections_max
from queenmq.server.edge.head import HeadLimits, HeadReader
from queenmq.server.edge.origins import OriginRules, is_loopback, make_judge
from queenmq.server.edge.server import EdgeServer
from queenmq.server.edge.shared import Edge
from queenmq.server.orders import BrokerOrders
from queenmq.server.stop_time import StopTime
from queenmq.server.tls.certificates import Certificates, find_files
from queenmq.server.tls.link import TlsLink
from queenmq.server.wiring.broker import Broker
from queenmq.settings import Settings

_BACKLOG = 2048
#: Descriptors that are not for clients: PostgreSQL, spool, listening socket, logs.
_DESCRIPTORS_RESERVED = 64


def calm_garbage_collector() -> None:
    """Keep full collections rare: each stops all requests for 20 to 30 ms (push p99 28 -> 19 ms).

    Objects of the start live as long as the process and are exempt from collection. Garbage of
    requests is young, where collecting it is cheap.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 100)


def bind(settings: Settings) -> socket.socket:
    """Return the listening socket. Several processes may share it."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((settings.host, settings.port))
    sock.listen(_BACKLOG)
    sock.set_inheritable(True)
    return sock


def address_of(sock: socket.socket, *, is_tls: bool = False) -> str:
    """Return the URL of the socket."""
    host, port = sock.getsockname()[:2]
    scheme = "https" if is_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def make_edge(broker: Broker, settings: Settings) -> Edge:
    """Build the edge in front of the broker."""
    every = connections_max(
        settings.connections_max, reserved=_DESCRIPTORS_RESERVED + settings.db_pool_size
    )
    limits = CrowdLimits(
        connections_max=every,
        per_address_max=min(every, settings.connections_per_address_max or every),
        bodies_bytes_max=settings.max_bodies_bytes,
        keep_alive_s=settings.keep_alive_ms / 1000,
        head_s=settings.head_timeout_ms / 1000,
        body_bytes_per_s=settings.body_bytes_per_s_min,
        unread_s=settings.unread_timeout_ms / 1000,
    )
    head_limits = HeadLimits(
        bytes_max=settings.max_header_bytes,
        line_bytes_max=settings.max_url_bytes,
        header_bytes_max=settings.max_header_value_bytes,
        headers_max=settings.max_headers,
        body_bytes_max=settings.max_body_bytes,
    )
    rules = OriginRules(
        cors_origins=_names(settings.cors_origins),
        allowed_hosts=_names(settings.allowed_hosts.lower())
        if settings.allowed_hosts or is_loopback(settings.host)
        else None,
    )
    crowd = Crowd(limits)
    broker.meter.watch(crowd)
    return Edge(
        crowd=crowd,
        reader=HeadReader(head_limits, make_judge(rules)),
        app=broker.app,
        on_error=broker.app.fail,
        gzip_bytes_min=settings.gzip_bytes_min,
        scheme="http" if settings.tls_cert is None else "https",
        on_answer=broker.meter.note_answer,
        on_refusal=lambda error: broker.meter.note_refusal(error.status, error.bound),
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def serve(
    sock: socket.socket, orders: BrokerOrders, *, on_ready: Callable[[str | None], None]
) -> bool:
    """Serve until a signal. Return whether the start succeeded.

    `on_ready` gets the id of the database, if that is known by then.
    """
    factory = None
    if sys.platform != "win32":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve(sock, orders, on_ready))
    return True


async def _serve(
    sock: socket.socket, orders: BrokerOrders, on_ready: Callable[[str | None], None]
) -> None:
    settings = orders.settings
    broker = Broker(orders)
    edge = make_edge(broker, settings)
    certificates = _certificates(settings)
    server = EdgeServer(edge, backlog=_BACKLOG, make=_tls_links(edge, certificates))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if certificates is not None:
        loop.add_signal_handler(signal.SIGHUP, certificates.reload)
        certificates.start()
    await broker.start()
    await server.start(sock)
    calm_garbage_collector()
    on_ready(broker.database_id)
    await stop.wait()
    # No new connections, parked polls answered, the rest finished.
    server.close()
    time = StopTime(settings.shutdown_timeout_ms)
    # At once, so that a pop whose call hangs takes no time from requests that can be answered.
    await asyncio.gather(broker.begin_stop(time), server.stop(time.work_left_s()))
    if certificates is not None:
        await certificates.stop()
    await broker.stop(time)


def _certificates(settings: Settings) -> Certificates | None:
    files = find_files(settings)
    return None if files is None else Certificates(files)


def _tls_links(
    edge: Edge, certificates: Certificates | None
) -> Callable[[], asyncio.Protocol] | None:
    if certificates is None:
        return None
    return lambda: TlsLink(edge, certificates.context)
