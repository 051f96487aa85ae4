"""Chooses where the server listens: a loopback port and a directory for the unix socket."""

from __future__ import annotations

import os
import random
import secrets
import socket
import tempfile
from pathlib import Path

from queenmq.storage.embedded.errors import PostgresFailed
from queenmq.storage.embedded.run_as import Account

#: Bytes of a socket path the kernel takes (108 with the closing zero), less "/.s.PGSQL.65535".
SOCKET_DIR_BYTES_MAX = 107 - len("/.s.PGSQL.65535")

#: Ports to choose from. They end below the range that kernels give to outgoing connections: inside
#: it, a client that retries while the server restarts can be handed the server's own port, connect
#: to itself, and keep the server from ever binding it again.
PORTS = range(15432, 32768)

#: Ports to try before giving up. Even a crowded machine has one free in a handful.
_TRIES = 200


def is_fit_for_socket(directory: str) -> bool:
    """Return whether the kernel accepts the path and a URL can name it (no commas)."""
    return len(os.fsencode(directory)) <= SOCKET_DIR_BYTES_MAX and "," not in directory


def choose_port(previous: int | None) -> int:
    """Keep the previous port if it is free, because users may have noted the URL."""
    if previous is not None and is_port_free(previous):
        return previous
    source = random.Random(secrets.randbits(64))  # noqa: S311 - a port is no secret
    for port in source.sample(PORTS, _TRIES):
        if is_port_free(port):
            return port
    raise PostgresFailed(
        f"no free port on 127.0.0.1 in {PORTS.start}..{PORTS.stop - 1} after {_TRIES} tries; "
        "free some, or use a PostgreSQL server of your own"
    )


def is_port_free(port: int) -> bool:
    """Try to bind the port as postgres will, which does not mind connections that just closed."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True


def make_socket_dir(preferred: Path, *, owner: Account | None) -> Path:
    """Create the private socket directory, or a temporary one if the path is unfit."""
    if is_fit_for_socket(str(preferred)):
        preferred.mkdir(mode=0o700, exist_ok=True)
        directory = preferred
    else:
        directory = Path(tempfile.mkdtemp(prefix="queen-", dir=_short_temp_dir()))
    if owner is not None:
        os.chown(directory, owner.uid, owner.gid, follow_symlinks=False)
    return directory


def _short_temp_dir() -> str:
    # The usual place may be long itself, on a machine where each user or job has its own.
    usual = tempfile.gettempdir()
    # mkdtemp creates a directory that only we can enter.
    return usual if is_fit_for_socket(f"{usual}/queen-xxxxxxxx") else "/tmp"  # noqa: S108
