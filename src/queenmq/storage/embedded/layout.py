"""The layout of a data directory, and the small private files beside the cluster.

    <data-dir>/postgres          the cluster (PGDATA); the only part postgres itself may write,
                                 with the socket directory
    <data-dir>/socket            unix socket, unless its path is too long or odd
    <data-dir>/postgresql.conf   settings, rewritten on every start
    <data-dir>/postgres.log      log of server and keeper, and one older piece in postgres.log.1
    <data-dir>/password          password of the role `queen`
    <data-dir>/runtime.json      port and socket directory of the last start
    <data-dir>/broker.lock       locked while a broker lives
    <data-dir>/cluster.lock      locked while a keeper (so maybe postgres) lives

This module starts no process and takes no lock.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from queenmq.storage.embedded.errors import DataDirUnusable, NoClusterFound

#: Name of the superuser and of the database: one tenant, one purpose, nothing to mix up.
ROLE = "queen"


@dataclass(frozen=True)
class Layout:
    """Paths of one data directory, absolute, so that a change of working directory is harmless."""

    data_dir: Path

    @classmethod
    def of(cls, data_dir: Path) -> Layout:
        """Resolve symbolic links too: the path names the cluster in a postmaster's arguments."""
        return cls(Path(data_dir).expanduser().resolve())

    @property
    def pgdata(self) -> Path:
        return self.data_dir / "postgres"

    @property
    def socket_dir(self) -> Path:
        return self.data_dir / "socket"

    @property
    def config(self) -> Path:
        return self.data_dir / "postgresql.conf"

    @property
    def log(self) -> Path:
        return self.data_dir / "postgres.log"

    @property
    def password(self) -> Path:
        return self.data_dir / "password"

    @property
    def runtime(self) -> Path:
        return self.data_dir / "runtime.json"

    @property
    def broker_lock(self) -> Path:
        return self.data_dir / "broker.lock"

    @property
    def cluster_lock(self) -> Path:
        return self.data_dir / "cluster.lock"

    @property
    def has_cluster(self) -> bool:
        return (self.pgdata / "PG_VERSION").is_file()


@dataclass(frozen=True)
class Runtime:
    """The address of the server of the last start, as in runtime.json."""

    port: int
    socket_dir: str

    def tcp_url(self, password: str) -> str:
        return f"postgresql://{ROLE}:{quote(password, safe='')}@127.0.0.1:{self.port}/{ROLE}"

    def socket_url(self) -> str:
        # No host part: both asyncpg and libpq then take the directory from `host`.
        return f"postgresql://{ROLE}@/{ROLE}?host={quote(self.socket_dir)}&port={self.port}"


def create_data_dir(data_dir: Path, *, group_id: int | None) -> None:
    """Create the data directory if it is missing, private to its owner.

    `group_id` is the group of the account that will run postgres for root. That group may then pass
    through the directory, so postgres needs no capability. It can neither list nor write the
    directory, so it cannot plant a link that root would follow. An existing directory keeps the
    modes its owner chose.
    """
    try:
        data_dir.parent.mkdir(parents=True, exist_ok=True)
        try:
            data_dir.mkdir(mode=0o700)
        except FileExistsError:
            if not data_dir.is_dir():
                raise DataDirUnusable(
                    f"data directory {data_dir} is a file; name a directory, or a path where one "
                    "can be created"
                ) from None
            return
        if group_id is not None:
            os.chown(data_dir, -1, group_id)
            data_dir.chmod(0o710)
    except OSError as error:
        raise _unusable(data_dir, error) from error


def write_private(path: Path, text: str) -> None:
    """Replace a file by one that only its owner can read, in one step."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def open_private(path: Path, flags: int) -> int:
    """Open a file beside the cluster as 0600, never through a symbolic link.

    Root gives it to the owner of the directory, so that one run with more rights than usual does
    not lock that owner out.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if os.geteuid() == 0:
            os.fchown(descriptor, path.parent.stat().st_uid, -1)
    except OSError as error:
        raise _unusable(path, error) from error
    return descriptor


def write_runtime(layout: Layout, runtime: Runtime) -> None:
    record = {"port": runtime.port, "socket_dir": runtime.socket_dir}
    write_private(layout.runtime, json.dumps(record, indent=2) + "\n")


def read_runtime(layout: Layout) -> Runtime | None:
    """Read the record of the last start. Return None if it is missing or invalid."""
    try:
        record = json.loads(layout.runtime.read_text())
        return Runtime(port=int(record["port"]), socket_dir=str(record["socket_dir"]))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    except OSError as error:
        raise _unusable(layout.runtime, error) from error


def read_password(layout: Layout) -> str | None:
    try:
        return layout.password.read_text().strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unusable(layout.password, error) from error


def read_url(data_dir: Path, *, socket: bool = False) -> str:
    """Return the URL of the cluster in `data_dir`, running or stopped.

    With `socket` the URL goes through the unix socket and holds no password.
    """
    layout = Layout.of(data_dir)
    runtime, password = read_runtime(layout), read_password(layout)
    if runtime is None or password is None:
        raise NoClusterFound(
            f"data directory {layout.data_dir} holds no embedded PostgreSQL cluster that was ever "
            "started; check the path, or start a broker on it first"
        )
    return runtime.socket_url() if socket else runtime.tcp_url(password)


def _unusable(path: Path, error: OSError) -> DataDirUnusable:
    return DataDirUnusable(
        f"{path} cannot be used ({error.strerror}); give this user the right to it, "
        "or name another data directory"
    )
