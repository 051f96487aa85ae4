"""Several worker processes on one listening socket, kept alive by this one.

A worker gets its settings on standard input and stops when that is closed, so no worker outlives
its parent.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from types import FrameType

import msgspec

from queenmq.clock import now_ms
from queenmq.metrics.cells import make_shared
from queenmq.server.http import serve
from queenmq.server.orders import BrokerOrders
from queenmq.server.stop_time import exit_limit_s

logger = logging.getLogger(__name__)

#: A worker that ends sooner than this after its start is not restarted at once.
_QUICK_DEATH_MS = 5_000
_READY = b"ready "
#: What a signal asks for.
_STOP = b"x"
_RELOAD = b"r"


class WorkerOrders(msgspec.Struct, frozen=True):
    """The orders for a worker."""

    fd: int
    broker: BrokerOrders


def run_workers(
    sock: socket.socket, orders: BrokerOrders, *, on_ready: Callable[[str | None], None]
) -> bool:
    """Keep all workers serving until a stop is requested. Return whether all of them started."""
    stop_reader, stop_writer = socket.socketpair()
    stop_writer.setblocking(False)

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        stop_writer.send(_STOP)

    def ask_to_reload(_number: int, _frame: FrameType | None) -> None:
        stop_writer.send(_RELOAD)

    before = {
        number: signal.signal(number, ask_to_stop) for number in (signal.SIGINT, signal.SIGTERM)
    }
    if orders.settings.tls_cert is not None:
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, ask_to_reload)
    try:
        return _supervise(sock, orders, stop_reader, on_ready)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        stop_reader.close()
        stop_writer.close()


def _supervise(
    sock: socket.socket,
    orders: BrokerOrders,
    stop: socket.socket,
    on_ready: Callable[[str | None], None],
) -> bool:
    settings = orders.settings
    metrics_fd = make_shared(settings.workers)
    orders = msgspec.structs.replace(orders, metrics_fd=metrics_fd)
    workers = [_start(sock, orders, place) for place in range(settings.workers)]
    try:
        found = [_await_ready(worker) for worker, _ in workers]
        if None in found:
            return False
        # Replacement workers know the database and use the same spool.
        database_id = next((one for one in found if one), None)
        if database_id is not None:
            orders = msgspec.structs.replace(orders, missing=None, database_id=database_id)
        on_ready(database_id)
        with selectors.DefaultSelector() as selector:
            selector.register(stop, selectors.EVENT_READ)
            while not (selector.select(timeout=0.5) and _is_stop(stop, workers)):
                for place, (worker, started_ms) in enumerate(workers):
                    if worker.poll() is not None:
                        facts = {
                            "event": "worker_died",
                            "pid": worker.pid,
                            "code": worker.returncode,
                        }
                        logger.error("A worker died. Starting another.", extra=facts)
                        is_quick = now_ms() - started_ms < _QUICK_DEATH_MS
                        if is_quick and selector.select(timeout=1) and _is_stop(stop, workers):
                            return True
                        _close_pipes(worker)
                        workers[place] = _start(sock, orders, place)
        return True
    finally:
        _stop([worker for worker, _ in workers], exit_limit_s(settings.shutdown_timeout_ms))
        os.close(metrics_fd)


def _is_stop(asked: socket.socket, workers: list[tuple[subprocess.Popen[bytes], float]]) -> bool:
    """Return whether to stop. A request to reload the certificate goes to the workers."""
    if _STOP in asked.recv(4096):
        return True
    for worker, _ in workers:
        if worker.poll() is None:
            worker.send_signal(signal.SIGHUP)
    return False


def _start(
    sock: socket.socket, orders: BrokerOrders, place: int
) -> tuple[subprocess.Popen[bytes], float]:
    orders = msgspec.structs.replace(orders, place=place)
    fds = [sock.fileno(), *([orders.metrics_fd] if orders.metrics_fd is not None else [])]
    worker = subprocess.Popen(
        [sys.executable, "-m", "queenmq.server.workers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=fds,
        # A Ctrl-C in the terminal is for the parent; it stops the workers in its own order.
        start_new_session=True,
    )
    assert worker.stdin is not None
    worker.stdin.write(msgspec.json.encode(WorkerOrders(sock.fileno(), orders)) + b"\n")
    worker.stdin.flush()
    return worker, now_ms()


def _await_ready(worker: subprocess.Popen[bytes]) -> str | None:
    """Return the id of its database, empty if it knows none, or None when it did not start."""
    assert worker.stdout is not None
    line = worker.stdout.readline()
    return line.removeprefix(_READY).decode().strip() if line.startswith(_READY) else None


def _stop(workers: list[subprocess.Popen[bytes]], timeout_s: float) -> None:
    deadline_ms = now_ms() + timeout_s * 1000
    for worker in workers:
        if worker.poll() is None:
            worker.terminate()
    for worker in workers:
        try:
            worker.wait(timeout=max(0.1, (deadline_ms - now_ms()) / 1000))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        _close_pipes(worker)


def _close_pipes(worker: subprocess.Popen[bytes]) -> None:
    for pipe in (worker.stdin, worker.stdout):
        assert pipe is not None
        pipe.close()


def main() -> None:
    """Run a worker process."""
    from queenmq import log

    orders = msgspec.json.decode(sys.stdin.buffer.readline(), type=WorkerOrders)
    settings = orders.broker.settings
    log.configure(level=settings.log_level, log_format=settings.log_format)

    def follow_parent() -> None:
        # Nothing more is ever written: the end of the stream is the end of the parent.
        # Unbuffered: a thread inside a buffered read would break the interpreter's own end.
        while os.read(sys.stdin.fileno(), 4096):
            pass
        signal.raise_signal(signal.SIGTERM)

    threading.Thread(target=follow_parent, name="follow-parent", daemon=True).start()

    def report_ready(database_id: str | None) -> None:
        sys.stdout.buffer.write(_READY + (database_id or "").encode() + b"\n")
        sys.stdout.buffer.flush()

    sock = socket.socket(fileno=orders.fd)
    if not serve(sock, orders.broker, on_ready=report_ready):
        sys.exit(1)


if __name__ == "__main__":
    main()
