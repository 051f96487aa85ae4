"""Starts and stops the embedded server: puts the parts of this package in order.

    broker lock -> cluster lock -> stop an abandoned postmaster -> create the cluster if missing
    -> port, socket, settings -> keeper -> ready

Synchronous, for the parent process of a broker before any event loop runs.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from queenmq.storage.embedded.binaries import Binaries, find_binaries
from queenmq.storage.embedded.cluster_init import PROGRAM_ENVIRONMENT, ClusterInit
from queenmq.storage.embedded.endpoints import choose_port, is_port_free, make_socket_dir
from queenmq.storage.embedded.errors import EmbeddedPostgresError, PostgresFailed
from queenmq.storage.embedded.keeper_link import KeeperLink, Orders
from queenmq.storage.embedded.layout import (
    Layout,
    Runtime,
    create_data_dir,
    open_private,
    read_runtime,
    write_private,
    write_runtime,
)
from queenmq.storage.embedded.locks import lock_broker, lock_cluster, note_holder
from queenmq.storage.embedded.postmaster import running_postmaster, stop_postmaster
from queenmq.storage.embedded.run_as import RunAs, find_account, find_run_as
from queenmq.storage.embedded.server_settings import (
    choose_wal_compression,
    default_shared_buffers_mb,
    plan_settings,
    ram_bytes,
    render_settings,
)

#: Ports tried when another program takes the chosen one before postgres binds it.
_PORT_TRIES = 3


class EmbeddedPostgres:
    """A PostgreSQL server that lives as long as this process, in its own directory.

    Do not share it between threads. Forked children see it as stopped.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        shared_buffers_mb: int | None = None,
        max_connections: int = 100,
        extra_settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._layout = Layout.of(data_dir)
        self._shared_buffers_mb = shared_buffers_mb
        self._max_connections = max_connections
        self._extra_settings = dict(extra_settings)
        self._broker_lock: int | None = None
        self._link: KeeperLink | None = None
        self._runtime: Runtime | None = None
        self._password = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Return the URL over loopback TCP, with the password."""
        return self._start().tcp_url(self._password)

    @property
    def socket_url(self) -> str:
        """Return the URL over the unix socket, which only this user (and root) can open."""
        return self._start().socket_url()

    @property
    def postmaster_pid(self) -> int | None:
        """Return the id of the live postmaster. It changes when the keeper restarts it."""
        return running_postmaster(self._layout.pgdata)

    def start(self) -> None:
        """Start the server and return once it accepts connections.

        Fails at once with `DataDirInUse` if another broker uses the data directory. Waits for the
        keeper of a dead broker. A failed start leaves nothing running.
        """
        if self._broker_lock is not None:
            raise EmbeddedPostgresError(
                f"the server on {self._layout.data_dir} is started already; stop it first"
            )
        binaries = find_binaries()
        account = find_account(self._layout.pgdata)
        create_data_dir(self._layout.data_dir, group_id=account.gid if account else None)
        self._broker_lock = lock_broker(self._layout)
        _forget_when_forked(self)
        try:
            cluster_lock = lock_cluster(self._layout)
            try:
                run_as = find_run_as(
                    account=account, postgres=binaries.postgres, data_dir=self._layout.data_dir
                )
                self._start_locked(binaries, run_as, cluster_lock)
            finally:
                # The keeper has its own copy now, and must be the only holder.
                os.close(cluster_lock)
        except OSError as error:
            self.stop()
            raise EmbeddedPostgresError(
                f"the server on {self._layout.data_dir} cannot be started: {error}; fix that "
                "and start again"
            ) from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server cleanly. Does nothing if it is not started."""
        if self._broker_lock is None:
            return
        try:
            if self._link is not None:
                self._link.stop()
                # Finds something only after a keeper that was killed.
                self._stop_abandoned()
        finally:
            self._link = self._runtime = None
            os.close(self._broker_lock)
            self._broker_lock = None

    def check(self) -> None:
        """Raise `PostgresFailed` if the server is down for good. Cheap enough for every second."""
        self._start()
        assert self._link is not None
        self._link.check(log_name=str(self._layout.log))

    def _start(self) -> Runtime:
        if self._runtime is None:
            raise EmbeddedPostgresError(
                f"the server on {self._layout.data_dir} is not started; start it first"
            )
        return self._runtime

    def _start_locked(self, binaries: Binaries, run_as: RunAs, lock: int) -> None:
        self._stop_abandoned()
        cluster = ClusterInit(self._layout, binaries=binaries, run_as=run_as, lock=lock)
        self._password = cluster.ensure()
        self._write_settings(binaries)
        for tries_left in reversed(range(_PORT_TRIES)):
            runtime = self._choose_endpoints(run_as)
            try:
                self._start_keeper(binaries, run_as, lock, runtime)
            except PostgresFailed:
                if tries_left == 0 or is_port_free(runtime.port):
                    raise
                continue
            self._runtime = runtime
            return

    def _start_keeper(self, binaries: Binaries, run_as: RunAs, lock: int, runtime: Runtime) -> None:
        log = open_private(self._layout.log, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            self._link = KeeperLink(self._orders(binaries, run_as, runtime), log=log, lock=lock)
        finally:
            os.close(log)
        note_holder(lock, self._link.pid)
        try:
            self._link.wait_ready(log_name=str(self._layout.log))
        except BaseException:
            self._link.stop()
            self._link = None
            raise

    def _orders(self, binaries: Binaries, run_as: RunAs, runtime: Runtime) -> Orders:
        command = [*run_as.prefix, binaries.postgres, "-D", str(self._layout.pgdata)]
        command += ["-c", f"config_file={self._layout.config}"]
        # On the command line, where ALTER SYSTEM cannot make them differ from runtime.json.
        command += ["-c", "listen_addresses=127.0.0.1", "-c", f"port={runtime.port}"]
        command += ["-c", f"unix_socket_directories={_quote_path(runtime.socket_dir)}"]
        return Orders(
            command=command,
            environment=PROGRAM_ENVIRONMENT,
            uid=run_as.uid,
            gid=run_as.gid,
            extra_groups=run_as.extra_groups,
            pgdata=str(self._layout.pgdata),
            socket_dir=runtime.socket_dir,
            remove_socket_dir=Path(runtime.socket_dir) != self._layout.socket_dir,
            older_log=f"{self._layout.log}.1",
        )

    def _choose_endpoints(self, run_as: RunAs) -> Runtime:
        previous = read_runtime(self._layout)
        port = choose_port(previous.port if previous else None)
        socket_dir = make_socket_dir(self._layout.socket_dir, owner=run_as.owner)
        runtime = Runtime(port=port, socket_dir=str(socket_dir))
        # Written before postgres starts, so that a process that finds it running can also reach it.
        write_runtime(self._layout, runtime)
        return runtime

    def _write_settings(self, binaries: Binaries) -> None:
        buffers_mb = self._shared_buffers_mb or default_shared_buffers_mb(ram_bytes())
        settings = plan_settings(
            shared_buffers_mb=buffers_mb,
            max_connections=self._max_connections,
            wal_compression=choose_wal_compression(binaries.configure_flags()),
            extra_settings=self._extra_settings,
        )
        write_private(self._layout.config, render_settings(settings))
        # Holds no secret, and the account that runs postgres for root must read it.
        self._layout.config.chmod(0o644)

    def _stop_abandoned(self) -> None:
        """Stop a postmaster whose keeper was killed, because no other process would."""
        pid = running_postmaster(self._layout.pgdata)
        if pid is None:
            return
        try:
            is_down = stop_postmaster(self._layout.pgdata, pid)
        except PermissionError:
            is_down = False
        if not is_down:
            raise PostgresFailed(
                f"postgres process {pid} still runs on {self._layout.pgdata} and cannot be "
                "stopped by this user; stop it, then start again"
            )

    def _forget(self) -> None:
        """Drop all handles in a forked child, without touching the server."""
        if self._link is not None:
            self._link.forget()
        if self._broker_lock is not None:
            with contextlib.suppress(OSError):
                os.close(self._broker_lock)
        self._link = self._runtime = self._broker_lock = None


def _forget_when_forked(server: EmbeddedPostgres) -> None:
    """Close lock and pipe in forked workers, which would otherwise keep them open after the broker
    has died.
    """
    reference = weakref.ref(server)

    def forget() -> None:
        still_there = reference()
        if still_there is not None:
            still_there._forget()

    os.register_at_fork(after_in_child=forget)


def _quote_path(path: str) -> str:
    # The setting is a list, so a comma or blank in the path must not split it.
    return '"' + path.replace('"', '""') + '"'
