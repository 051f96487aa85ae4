"""Owns a broker for tests: `queen serve` with its own PostgreSQL in a directory that is removed."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from queenmq.client.client import Queen
from queenmq.client.sync.client import SyncQueen
from queenmq.errors import QueenError

#: Seconds that a stop may take before it is forced.
_STOP_S = 60
#: A developer's own settings must not lead a test to a database that matters.
_FORGOTTEN = ("QUEEN_DATABASE_URL", "QUEEN_CONFIG")


class Broker:
    """A running broker: its `url`, and `client`, a SyncQueen that is closed with it."""

    def __init__(self, url: str, client: SyncQueen) -> None:
        self.url = url
        self.client = client

    def queen(self, **options: Any) -> Queen:
        """Return an async client, which is the caller's to close."""
        return Queen(self.url, **options)


@contextlib.contextmanager
def running_broker(*arguments: str) -> Iterator[Broker]:
    """Yield a broker on a free port with a fresh database; takes more flags of `queen serve`."""
    # Below the system's own directory: a longer path would not do for PostgreSQL's socket.
    home = Path(tempfile.mkdtemp(prefix="queen-"))
    try:
        process, url = _start(home, arguments)
        try:
            with SyncQueen(url) as client:
                yield Broker(url, client)
        finally:
            _stop(process)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _start(home: Path, arguments: tuple[str, ...]) -> tuple[subprocess.Popen[str], str]:
    forget = [word for name in _FORGOTTEN for word in ("-u", name)]
    serve = [sys.executable, "-m", "queenmq", "serve", "--port", "0", "--log-level", "warning"]
    log = home / "broker.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            # As found on the path of the tests that start it.
            ["env", *forget, *serve, "--data-dir", str(home / "data"), *arguments],  # noqa: S607
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    ready = process.stdout.readline()
    if "ready on " not in ready:
        _stop(process)
        raise QueenError(f"the broker for tests did not start: {ready}{log.read_text().strip()}")
    return process, ready.split("ready on ")[1].strip()


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
