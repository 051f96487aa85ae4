"""The broker's end of the two pipes to the keeper."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from queenmq.storage.embedded.errors import PostgresFailed
from queenmq.storage.embedded.postmaster import STOP_STEPS

#: Seconds for a start. Long, since a crash may leave max_wal_size of log to replay.
READY_SECONDS_MAX = 300.0

#: Seconds for the keeper to leave: all its steps, its leftovers, and some for a busy machine.
_LEAVE_SECONDS_MAX = sum(seconds for _, seconds in STOP_STEPS) + 20.0


@dataclass(frozen=True)
class Orders:
    """The orders for the keeper. It reads no settings."""

    command: list[str]
    environment: dict[str, str]
    uid: int | None
    gid: int | None
    extra_groups: list[int] | None
    pgdata: str
    socket_dir: str
    remove_socket_dir: bool
    older_log: str


class KeeperLink:
    """A running keeper, seen from the broker that started it."""

    def __init__(self, orders: Orders, *, log: int, lock: int) -> None:
        self._process = subprocess.Popen(
            # -P: a json.py in the broker's working directory must not become the keeper's.
            [sys.executable, "-P", "-m", "queenmq.storage.embedded.keeper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=(lock,),
            # Ctrl-C reaches every process of the terminal's group. The keeper must survive it.
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._orders_end = self._process.stdin
        self._events_end = self._process.stdout.fileno()
        os.set_blocking(self._events_end, False)
        self._unread = b""
        self._failure: str | None = None
        # A keeper that is already gone is noticed when its events are read.
        with contextlib.suppress(BrokenPipeError):
            self._orders_end.write(json.dumps(asdict(orders)).encode() + b"\n")
            self._orders_end.flush()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self, *, log_name: str, seconds: float = READY_SECONDS_MAX) -> None:
        """Return once postgres accepts connections. Raises if it fails to start."""
        deadline = time.monotonic() + seconds
        while not any(event.get("event") == "ready" for event in self._read_events()):
            self.check(log_name=log_name)
            left = deadline - time.monotonic()
            if left <= 0:
                raise PostgresFailed(
                    f"postgres was not ready after {seconds:.0f} s; see {log_name}, "
                    "and start again once it has what it needs"
                )
            select.select([self._events_end], [], [], min(left, 1.0))

    def check(self, *, log_name: str) -> None:
        """Raise if the keeper has given up or is gone."""
        # Checked before reading, so that its last output can be read.
        has_left = self._process.poll() is not None
        self._read_events()
        if self._failure is not None:
            raise PostgresFailed(
                f"postgres does not run: {self._failure}; see {log_name}, fix that and start again"
            )
        if has_left:
            raise PostgresFailed(
                f"the keeper of postgres (process {self.pid}) ended with status "
                f"{self._process.returncode}; see {log_name} and start the broker again"
            )

    def stop(self) -> None:
        """Make the keeper stop postgres and exit. Safe if the keeper has already ended."""
        with contextlib.suppress(OSError):
            self._orders_end.close()
        try:
            self._process.wait(_LEAVE_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def forget(self) -> None:
        """Close our ends in a forked child, whose copies would hide the broker's death."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        # Not this process's child any more, so nothing here should try to wait for it.
        self._process.returncode = 0

    def _read_events(self) -> list[dict[str, Any]]:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._events_end, 65536):
                self._unread += chunk
        *lines, self._unread = self._unread.split(b"\n")
        events: list[dict[str, Any]] = [json.loads(line) for line in lines]
        for event in events:
            if event.get("event") == "failed":
                self._failure = str(event.get("reason"))
        return events
