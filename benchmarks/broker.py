"""A broker to measure: `queen serve` on a fresh data directory, and what its processes use."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.database import BenchDatabase

#: Seconds that a stop may take before the broker is killed.
_STOP_S = 60
_TICKS = os.sysconf("SC_CLK_TCK")


class BenchmarkError(Exception):
    """The measurement cannot go on; the text says why."""


@dataclass(frozen=True)
class Usage:
    """CPU seconds used so far, and memory held now."""

    broker_cpu_s: float
    postgres_cpu_s: float
    broker_rss_bytes: int

    @property
    def cpu_s(self) -> float:
        return self.broker_cpu_s + self.postgres_cpu_s


class Broker:
    """A running broker."""

    def __init__(self, process: subprocess.Popen[str], url: str, data_dir: Path, log: Path) -> None:
        self._process = process
        self._data_dir = data_dir
        self._log = log
        self.url = url

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    def read_log(self) -> str:
        """What it has logged so far, from warnings on."""
        return self._log.read_text()

    def usage(self) -> Usage:
        """Read from /proc; children that have ended count for their parent."""
        parents = _parents()
        postgres = _tree(_postmaster(self._data_dir), parents)
        broker = _tree(self._process.pid, parents) - postgres
        return Usage(
            broker_cpu_s=sum(map(_cpu_s, broker)),
            postgres_cpu_s=sum(map(_cpu_s, postgres)),
            broker_rss_bytes=sum(map(_rss_bytes, broker)),
        )

    def count_descriptors(self) -> int:
        """Open files of the broker's processes."""
        parents = _parents()
        postgres = _tree(_postmaster(self._data_dir), parents)
        broker = _tree(self._process.pid, parents) - postgres
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in broker)

    def stop(self) -> None:
        """End it; its PostgreSQL ends with it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextlib.contextmanager
def running_broker(
    *,
    workers: int,
    database: BenchDatabase | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Broker]:
    """A broker, with an empty database of its own unless it is given one, gone without a trace at
    the end. Settings are variables of its environment.
    """
    home = Path(tempfile.mkdtemp(prefix="queen-bench-"))
    try:
        broker = _start(home, workers, database, settings or {})
        try:
            yield broker
        finally:
            broker.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _start(
    home: Path, workers: int, database: BenchDatabase | None, settings: Mapping[str, str]
) -> Broker:
    log = home / "broker.log"
    data_dir = database.data_dir if database else home / "data"
    where = ["--database-url", database.url] if database else ["--data-dir", str(data_dir)]
    command = [sys.executable, "-m", "queenmq", "serve", "--port", "0", "--workers", str(workers)]
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*command, *where, "--log-level", "warning"],
            env={**os.environ, "QUEEN_SPOOL_DIR": str(home / "spool"), **settings},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # Ctrl-C is for run.py, which then stops the broker in order.
            start_new_session=True,
        )
    assert process.stdout is not None
    ready = process.stdout.readline()
    if "ready on " not in ready:
        process.kill()
        process.wait()
        raise BenchmarkError(f"the broker did not start: {ready}{log.read_text()}")
    return Broker(process, ready.split("ready on ")[1].strip(), data_dir, log)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on; empty for a process that is gone."""
    try:
        # The name before them stands in brackets and may hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def server_processes(data_dir: Path) -> set[int]:
    """Those of the embedded PostgreSQL with this data directory."""
    return _tree(_postmaster(data_dir), _parents())


def cpu_s_of(root: int) -> float:
    """CPU seconds that a process and all below it have used so far."""
    return sum(map(_cpu_s, _tree(root, _parents())))


def _postmaster(data_dir: Path) -> int:
    try:
        return int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
    except FileNotFoundError:
        raise BenchmarkError("PostgreSQL has ended during the measurement") from None


def _parents() -> dict[int, int]:
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return {pid: int(stat[1]) for pid in pids if (stat := _stat(pid))}


def _tree(root: int, parents: dict[int, int]) -> set[int]:
    found, fresh = set(), {root}
    while fresh:
        found |= fresh
        fresh = {pid for pid, parent in parents.items() if parent in fresh} - found
    return found


def _cpu_s(pid: int) -> float:
    return sum(map(int, _stat(pid)[11:15])) / _TICKS


def _rss_bytes(pid: int) -> int:
    stat = _stat(pid)
    return int(stat[21]) * os.sysconf("SC_PAGE_SIZE") if stat else 0
