"""Runs wrk with one of our scripts and reads the line that `lua/common.lua` prints."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.broker import BenchmarkError
from benchmarks.scenario import HERE

CONNECTIONS = 64
#: One is enough for what a broker on a few cores answers, and leaves it the rest of the machine.
THREADS = 1


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What wrk saw."""

    requests: int
    duration_us: int
    p50_us: int
    p99_us: int
    messages: int
    #: Answers that were not 2xx or told of a failed item.
    failed: int
    #: Pops that found nothing.
    dry: int
    #: Connections that broke and requests without an answer.
    broken: int
    cpu_s: float

    @property
    def seconds(self) -> float:
        return self.duration_us / 1e6

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.seconds

    @property
    def messages_per_s(self) -> float:
        return self.messages / self.seconds


def find() -> str:
    """Where wrk is."""
    path = shutil.which("wrk")
    if path is None:
        raise BenchmarkError(
            "wrk is not installed; get it with `apt-get install wrk` (Debian, Ubuntu) or"
            " `brew install wrk` (macOS) and run this again"
        )
    return path


def run(
    url: str,
    script: str,
    arguments: Sequence[str],
    *,
    seconds: int,
    connections: int = CONNECTIONS,
    headers: Sequence[str] = (),
) -> Outcome:
    """Send requests for that long."""
    folder = HERE / "lua"
    command = [
        find(), f"--threads={THREADS}", f"--connections={connections}", f"--duration={seconds}s",
        "--timeout=30s", *(f"--header={header}" for header in headers),
        f"--script={folder / script}.lua", url, "--", *arguments,
    ]  # fmt: skip
    before = _children_cpu_s()
    # A closing ;; keeps wrk's own search path.
    environ = {**os.environ, "LUA_PATH": f"{folder}/?.lua;;"}
    done = subprocess.run(command, capture_output=True, text=True, env=environ)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not lines:
        raise BenchmarkError(f"wrk failed: {done.stdout}{done.stderr}")
    return Outcome(**json.loads(lines[0].removeprefix("RESULT ")), cpu_s=_children_cpu_s() - before)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
