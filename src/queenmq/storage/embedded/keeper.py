"""The parent process of postgres: `python -m queenmq.storage.embedded.keeper`.

    broker --(stdin: one line of orders, then silence; its end means stop)--> keeper --> postgres
    broker <--(stdout: one JSON event per line)------------------------------ keeper

The keeper stops only when the pipe ends, because that happens however the broker ends, even by kill
-9. It ignores signals: a terminal or a service manager sends them to every process at once, while
the broker still needs the database to drain.

The keeper starts postgres, waits until it is ready, and watches it. If postgres ends by itself, the
keeper cleans up and starts it again, within limits. If the pipe ends, the keeper stops postgres and
exits. From start to exit it holds the cluster's lock as an inherited descriptor. Postgres does not
get the lock, so a killed keeper leaves it free for the next start.

It uses only the standard library and no broker code, to stay small and outlive bugs.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from queenmq.storage.embedded.keeper_decisions import GiveUp, decide_restart, last_words_of
from queenmq.storage.embedded.postmaster import clear_stale_locks, read_pid_file, stop_in_steps

#: Seconds between looks at the pid file during a start, and at the log's size afterwards.
_LOOK_SECONDS = 0.01
_IDLE_SECONDS = 1.0

#: Bytes of the log before its contents move to the one older piece.
_LOG_BYTES_MAX = 10 * 1024 * 1024

#: Bytes of log that are searched for the reason of an end.
_LAST_WORDS_BYTES_MAX = 8192

#: Seconds for processes of a dead postmaster: asked to quit, then killed, then left alone.
_LEFTOVER_QUIT_SECONDS = 3.0
_LEFTOVER_SECONDS_MAX = 10.0

_PR_SET_CHILD_SUBREAPER = 36


class Keeper:
    """Keeps one postgres alive until the broker is gone."""

    def __init__(self, orders: dict[str, Any], *, log: int, wakeup: int) -> None:
        self._orders = orders
        self._pgdata = Path(orders["pgdata"])
        self._socket_dir = Path(orders["socket_dir"])
        self._log = log
        self._wakeup = wakeup
        self._has_been_ready = False
        self._exits_at: list[float] = []

    def run(self) -> int:
        """Return the exit status: 0 after a stop, 1 after giving up."""
        try:
            return self._run()
        finally:
            if self._orders["remove_socket_dir"]:
                with contextlib.suppress(OSError):
                    self._socket_dir.rmdir()

    def _run(self) -> int:
        while True:
            log_start = os.fstat(self._log).st_size
            postgres = self._spawn()
            if not self._watch(postgres):
                self._stop(postgres)
                return 0
            self._exits_at = [*self._exits_at, time.monotonic()][-100:]
            self._note(f"postgres {postgres.pid} ended with status {postgres.returncode}")
            end_leftovers()
            last_words = last_words_of(self._log_since(log_start))
            decision = decide_restart(
                has_been_ready=self._has_been_ready,
                last_words=last_words,
                exits_at=self._exits_at,
                now=time.monotonic(),
            )
            if isinstance(decision, GiveUp):
                self._report(event="failed", reason=decision.reason)
                return 1
            if not self._rest(decision.seconds):
                return 0

    def _spawn(self) -> subprocess.Popen[bytes]:
        clear_stale_locks(self._pgdata, self._socket_dir)
        return subprocess.Popen(
            self._orders["command"],
            env=self._orders["environment"],
            user=self._orders["uid"],
            group=self._orders["gid"],
            extra_groups=self._orders["extra_groups"],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )

    def _watch(self, postgres: subprocess.Popen[bytes]) -> bool:
        """Watch one postgres. Return True if it ended by itself, False if it must stop."""
        is_ready = False
        while postgres.poll() is None:
            if not is_ready and self._is_ready(postgres.pid):
                is_ready = self._has_been_ready = True
                self._report(event="ready", pid=postgres.pid)
            if not self._rest(_IDLE_SECONDS if is_ready else _LOOK_SECONDS, wake_on_child=True):
                return False
            self._bound_log()
        return True

    def _rest(self, seconds: float, *, wake_on_child: bool = False) -> bool:
        """Wait at most this long. Return False as soon as the broker ends or says stop."""
        sources = [0, self._wakeup] if wake_on_child else [0]
        readable, _, _ = select.select(sources, [], [], seconds)
        if self._wakeup in readable:
            os.read(self._wakeup, 4096)
        # The broker sends nothing after its orders, so being readable means the end of the pipe.
        return 0 not in readable

    def _is_ready(self, pid: int) -> bool:
        found = read_pid_file(self._pgdata)
        return found is not None and found.pid == pid and found.is_ready

    def _stop(self, postgres: subprocess.Popen[bytes]) -> None:
        self._note(f"stopping postgres {postgres.pid}")
        stop_in_steps(postgres.send_signal, lambda: postgres.poll() is not None)
        end_leftovers()
        self._note("stopped")

    def _bound_log(self) -> None:
        """Move a full log aside and empty it.

        Postgres has the file open for appending, so the keeper copies and truncates it instead of
        renaming it. A line written between the two is lost. It matters more that postgres never
        waits for us.
        """
        if os.fstat(self._log).st_size <= _LOG_BYTES_MAX:
            return
        # A full disk must not end the keeper: then the older piece is short, and that is all.
        with contextlib.suppress(OSError):
            self._copy_log(Path(self._orders["older_log"]))
        with contextlib.suppress(OSError):
            os.ftruncate(self._log, 0)

    def _copy_log(self, older: Path) -> None:
        older.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(older, flags, 0o600), "wb") as file:
            offset = 0
            while chunk := os.pread(self._log, 65536, offset):
                offset += len(chunk)
                file.write(chunk)

    def _log_since(self, start: int) -> str:
        size = os.fstat(self._log).st_size
        start = max(start if start <= size else 0, size - _LAST_WORDS_BYTES_MAX)
        return os.pread(self._log, size - start, start).decode(errors="replace")

    def _report(self, **event: object) -> None:
        # The broker may be gone, or not reading: neither may hold the keeper up.
        with contextlib.suppress(OSError):
            os.write(1, json.dumps(event).encode() + b"\n")
        self._note(json.dumps(event))

    def _note(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._log, f"keeper [{os.getpid()}] {text}\n".encode())


def end_leftovers() -> None:
    """Wait for what a dead postmaster left behind, helping it along.

    We are their reaper, so they are our children by now. A new postgres cannot start while one of
    them holds the old shared memory, and unreaped they would stay as zombies where the first
    process of a container reaps no orphans.
    """
    started = time.monotonic()
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            return
        waited = time.monotonic() - started
        if waited > _LEFTOVER_SECONDS_MAX:
            return
        kind = signal.SIGQUIT if waited < _LEFTOVER_QUIT_SECONDS else signal.SIGKILL
        for pid in _list_children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, kind)
        time.sleep(_LOOK_SECONDS)


def _list_children() -> list[int]:
    me = os.getpid()
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name in parentheses may hold blanks. The parent is the second word after it.
            parent = entry.read_text().rpartition(")")[2].split()[1]
        except (OSError, IndexError, UnicodeDecodeError):
            continue
        if int(parent) == me:
            found.append(int(entry.parent.name))
    return found


def _become_reaper() -> None:
    """Inherit orphaned descendants. Linux only. Elsewhere postgres's own checks must do."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _prepare_signals() -> int:
    """Ignore signals that are meant for the broker. Return a descriptor for ended children.

    Handlers that do nothing, rather than ignored signals: those would be inherited by postgres.
    """
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for deaf_to in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(deaf_to, lambda *_: None)
    return reading


def _read_orders() -> dict[str, Any] | None:
    """Read the line of orders, byte by byte so as to leave the pipe's end where select sees it."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return None
        line += byte
    orders: dict[str, Any] = json.loads(line)
    return orders


def main() -> int:
    wakeup = _prepare_signals()
    orders = _read_orders()
    if orders is None:
        return 0
    os.set_blocking(1, False)
    os.chdir("/")
    _become_reaper()
    # Standard error is the log, opened for appending by the broker.
    return Keeper(orders, log=2, wakeup=wakeup).run()


if __name__ == "__main__":
    sys.exit(main())
