"""PostgreSQL servers that nobody looks after but the test: to be stopped, killed and frozen."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import asyncpg

from queenmq.storage.embedded.binaries import Binaries, find_binaries
from queenmq.storage.embedded.run_as import RunAs, find_account, find_run_as
from queenmq.storage.schema.migrator import migrate
from tests.support.embedded_server import SOON_S, family_of, wait_gone
from tests.support.folders import own_folder
from tests.support.waiting import wait_until

_SUPERUSER = "postgres"
#: Few connections, so that a test can take them all; no care for power cuts.
_SETTINGS = {
    "fsync": "off",
    "listen_addresses": "127.0.0.1",
    "max_connections": "40",
    "shared_buffers": "16MB",
}
_INITDB = ("-U", _SUPERUSER, "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C")
#: The bin directory of the PostgreSQL to test with; the one we ship if it is not set.
_PROGRAMS_VARIABLE = "QUEEN_TEST_PG_BIN"


def other_programs() -> Binaries | None:
    """The PostgreSQL that the run was told to use, or None for the one we ship."""
    directory = os.environ.get(_PROGRAMS_VARIABLE)
    return Binaries(Path(directory)) if directory else None


class OwnPostgres:
    """A server on a directory; the same port over all its starts."""

    def __init__(self, home: Path, **settings: str) -> None:
        self._settings = _SETTINGS | settings
        self._home = home
        self._data = home / "data"
        self._binaries: Binaries = other_programs() or find_binaries()
        account = find_account(self._data)
        if account is not None:
            os.chown(home, account.uid, account.gid)
        self._run_as: RunAs = find_run_as(
            account=account, postgres=self._binaries.postgres, data_dir=home
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._port = _free_port()

    @property
    def home(self) -> Path:
        """The directory that holds `data`, the server's own."""
        return self._home

    @property
    def url(self) -> str:
        """Our schema's database, for the ordinary role that owns it."""
        return self.url_of("queen")

    def url_of(self, database: str) -> str:
        return f"postgresql://queen@127.0.0.1:{self._port}/{database}"

    def superuser_url_of(self, database: str) -> str:
        return f"postgresql://{_SUPERUSER}@127.0.0.1:{self._port}/{database}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The postmaster."""
        assert self._process is not None, "the server does not run"
        return self._process.pid

    def make(self) -> None:
        """Make the cluster, with our schema in a database of its own."""
        self.make_empty()
        self.start()
        for statement in ("CREATE ROLE queen LOGIN", "CREATE DATABASE queen OWNER queen"):
            asyncio.run(_execute(self.superuser_url_of("postgres"), statement))
        asyncio.run(migrate(self.url))
        self.stop()

    def make_empty(self) -> None:
        """Make the cluster."""
        assert self._run([self._binaries.initdb, "-D", str(self._data), *_INITDB]).wait(SOON_S) == 0

    def follow(self, primary: OwnPostgres) -> None:
        """Make the cluster a standby of a running server."""
        program = str(self._binaries.directory / "pg_basebackup")
        place = ["-h", "127.0.0.1", "-p", str(primary._port), "-D", str(self._data)]
        words = [program, *place, "-U", _SUPERUSER, "--write-recovery-conf", "--checkpoint=fast"]
        assert self._run([*words, "--no-sync"]).wait(SOON_S) == 0, (
            self._home / "log.txt"
        ).read_text()

    def start(self, **settings: str) -> None:
        """Run the server and wait until it lets somebody in."""
        words = [f"-c{name}={value}" for name, value in (self._settings | settings).items()]
        place = ["-D", str(self._data), "-p", str(self._port), "-k", str(self._home)]
        self._process = self._run([self._binaries.postgres, *place, *words])
        wait_until(lambda: self._answers(), timeout_s=SOON_S, what="the server to answer")

    def stop(self) -> None:
        """A fast shutdown, as an administrator does it."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """The postmaster dies; its children notice that."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Nothing of the server moves any more; its connections stay open."""
        # First the postmaster, which else would start new children meanwhile.
        os.kill(self.pid, signal.SIGSTOP)
        for pid in family_of(self.pid):
            _signal(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in family_of(self.pid):
            _signal(pid, signal.SIGCONT)

    def close(self) -> None:
        """Nothing of it is left, whatever the test did."""
        if self._process is not None:
            self.thaw()
            self._end(signal.SIGQUIT)

    def demand_password(self, role: str) -> None:
        """From now on this role has to give one."""
        file = self._data / "pg_hba.conf"
        file.write_text(f"host all {role} 127.0.0.1/32 scram-sha-256\n{file.read_text()}")
        os.kill(self.pid, signal.SIGHUP)

    async def promote(self) -> None:
        """Make a standby the primary; comes back when it is.

        Not by SQL: a statement on a standby is cancelled if it needs rows that vacuum removes.
        """
        program = str(self._binaries.directory / "pg_ctl")
        promoting = self._run([program, "promote", "-w", "-t", "60", "-D", str(self._data)])
        assert await asyncio.to_thread(promoting.wait) == 0, (self._home / "log.txt").read_text()

    async def execute(self, *statements: str) -> None:
        """Run statements as the superuser, each in a session of its own."""
        for statement in statements:
            await _execute(self.superuser_url_of("queen"), statement)

    def _end(self, number: int) -> None:
        family = family_of(self.pid)
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(SOON_S)
        self._process = None
        wait_gone(family)

    def _run(self, command: list[str]) -> subprocess.Popen[bytes]:
        run_as = self._run_as
        with (self._home / "log.txt").open("ab") as output:
            return subprocess.Popen(
                [*run_as.prefix, *command],
                user=run_as.uid,
                group=run_as.gid,
                extra_groups=run_as.extra_groups,
                cwd=self._home,
                stdout=output,
                stderr=output,
            )

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._home / "log.txt").read_text()
        try:
            asyncio.run(_execute(self.superuser_url_of("postgres"), "SELECT 1"))
        except (OSError, asyncpg.PostgresError):
            return False
        return True


@contextlib.contextmanager
def made_cluster() -> Iterator[Path]:
    """The home of a cluster that is not running, to be copied."""
    with own_folder() as home:
        server = OwnPostgres(home)
        try:
            server.make()
        finally:
            server.close()
        yield home


@contextlib.contextmanager
def running_copy(home: Path) -> Iterator[OwnPostgres]:
    """A server on a copy of a cluster."""
    with own_folder() as copy:
        subprocess.run(["cp", "-a", str(home / "data"), str(copy / "data")], check=True)
        server = OwnPostgres(copy)
        try:
            server.start()
            yield server
        finally:
            server.close()


@contextlib.contextmanager
def running_empty(*, max_connections: int) -> Iterator[OwnPostgres]:
    """A server on a cluster without a database of ours."""
    with own_folder() as home:
        server = OwnPostgres(home, max_connections=str(max_connections))
        try:
            server.make_empty()
            server.start()
            yield server
        finally:
            server.close()


@contextlib.contextmanager
def running_standby(primary: OwnPostgres) -> Iterator[OwnPostgres]:
    """A server that replicates another."""
    with own_folder() as home:
        server = OwnPostgres(home)
        try:
            server.follow(primary)
            server.start()
            yield server
        finally:
            server.close()


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url, timeout=5)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
