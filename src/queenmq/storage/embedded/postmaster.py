"""Inspects a postmaster from outside, and stops one without a keeper.

Standard library only: the keeper imports this.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

#: Signals that stop postgres and the seconds each gets: fast shutdown (sessions are cut, a
#: checkpoint is written), immediate shutdown (the next start recovers from the log), and the end.
#: No acknowledged row is lost by any of them.
STOP_STEPS: tuple[tuple[signal.Signals, float], ...] = (
    (signal.SIGINT, 20.0),
    (signal.SIGQUIT, 7.0),
    (signal.SIGKILL, 5.0),
)

#: A process id above every kernel's limit, so certainly of no process.
_NOBODYS_PID = 2147483646

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class PidFile:
    """The content of a postmaster.pid file."""

    pid: int
    is_ready: bool


def parse_pid_file(text: str) -> PidFile | None:
    """Read a postmaster.pid, or None while its first line is not there yet."""
    lines = text.splitlines()
    if not lines or not lines[0].strip().isdigit():
        return None
    # The eighth line is the status, padded with blanks. It is absent early in a start.
    is_ready = len(lines) >= 8 and lines[7].strip() == "ready"
    return PidFile(pid=int(lines[0]), is_ready=is_ready)


def read_pid_file(pgdata: Path) -> PidFile | None:
    try:
        return parse_pid_file((pgdata / "postmaster.pid").read_text())
    except OSError:
        return None


def is_postmaster_command(arguments: list[str], pgdata: str) -> bool:
    """Say whether a command line is a postmaster of this cluster.

    Its children rewrite theirs to one string, and a process that inherited the number of a dead
    postmaster has another.
    """
    return (
        len(arguments) > 2
        and os.path.basename(arguments[0]) == "postgres"
        and any(pair == ("-D", pgdata) for pair in pairwise(arguments))
    )


def running_postmaster(pgdata: Path) -> int | None:
    """Return the id of the live postmaster of this cluster, if there is one."""
    found = read_pid_file(pgdata)
    if found is None or not is_postmaster_command(_command_of(found.pid), str(pgdata)):
        return None
    return found.pid


def stop_in_steps(send: Callable[[signal.Signals], None], is_down: Callable[[], bool]) -> bool:
    """Go through `STOP_STEPS` until the server is down. Return False if it survives all."""
    for step, seconds in STOP_STEPS:
        send(step)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if is_down():
                return True
            time.sleep(_POLL_SECONDS)
    return is_down()


def stop_postmaster(pgdata: Path, pid: int) -> bool:
    """Stop a postmaster that is not our child."""

    def send(step: signal.Signals) -> None:
        # The process may have ended meanwhile. The caller explains a PermissionError.
        if running_postmaster(pgdata) == pid:
            try:
                os.kill(pid, step)
            except ProcessLookupError:
                return

    return stop_in_steps(send, lambda: not is_postmaster_command(_command_of(pid), str(pgdata)))


def clear_stale_locks(pgdata: Path, socket_dir: Path) -> None:
    """Make lock files of a dead postmaster harmless. The caller holds the cluster's lock.

    PostgreSQL refuses to start when the recorded process id is alive, even if it now belongs to
    another program, which is common in containers. We do not remove the pid file: it also names the
    shared memory by which PostgreSQL recognises that an old backend is still running. So we only
    replace the id in it by one that cannot be alive.
    """
    if running_postmaster(pgdata) is not None:
        return
    for leftover in socket_dir.glob(".s.PGSQL.*"):
        leftover.unlink(missing_ok=True)
    pid_file = pgdata / "postmaster.pid"
    try:
        # Root writes into a directory of an unprivileged account here, so it follows no link.
        descriptor = os.open(pid_file, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "r+") as file:
        _, separator, rest = file.read().partition("\n")
        if not separator:
            # Died between creating and filling it, hence before there was any shared memory.
            pid_file.unlink()
            return
        file.seek(0)
        file.write(f"{_NOBODYS_PID}\n{rest}")
        file.truncate()


def _command_of(pid: int) -> list[str]:
    """Return the arguments of a process. Empty if it has ended or is a zombie."""
    if Path("/proc/self/cmdline").exists():
        try:
            return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).rstrip("\0").split("\0")
        except OSError:
            return []
    listing = ["ps", "-ww", "-o", "args=", "-p", str(pid)]
    return subprocess.run(listing, capture_output=True, text=True).stdout.split()
