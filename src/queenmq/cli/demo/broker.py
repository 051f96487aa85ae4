"""The demo's own broker, as a user would start it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from queenmq.errors import QueenError


@contextlib.contextmanager
def running_broker(home: str) -> Iterator[str]:
    """Run a broker with its PostgreSQL in that folder. Yield its URL."""
    command = [sys.executable, "-m", "queenmq", "serve", "--port", "0", "--data-dir", home]
    process = subprocess.Popen(
        [*command, "--log-level", "warning"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        try:
            ready = process.stdout.readline()
            if "ready on " not in ready:
                raise QueenError("the demo's broker did not start; its log is above")
            yield ready.rpartition(" ")[2].strip()
        finally:
            process.terminate()
            process.wait()
