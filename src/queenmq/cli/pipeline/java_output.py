"""Keeps what Java writes away from the terminal: its logs are no part of a command's output."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

#: How much of the captured output to show: enough to see why Java did not start.
_TAIL_BYTES = 4096


class JavaOutput:
    """The output of Java so far."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file

    def last_line(self) -> str:
        """Return the last thing it said; empty if that went to the terminal."""
        if self._file is None:
            return ""
        size = os.fstat(self._file.fileno()).st_size
        start = max(0, size - _TAIL_BYTES)
        text = os.pread(self._file.fileno(), _TAIL_BYTES, start).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else ""


@contextlib.contextmanager
def capture_java_output(*, is_shown: bool) -> Iterator[JavaOutput]:
    """Redirect standard error of child processes. Ours stays on the terminal."""
    if is_shown or not _is_ours():
        yield JavaOutput(None)
        return
    before = sys.stderr
    before.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        # Line by line, as the one before.
        sys.stderr = io.TextIOWrapper(
            os.fdopen(os.dup(terminal), "wb"), encoding=before.encoding, line_buffering=True
        )
        try:
            yield JavaOutput(file)
        finally:
            sys.stderr.close()
            sys.stderr = before
            os.dup2(terminal, 2)
            os.close(terminal)


def _is_ours() -> bool:
    """Return whether Python's standard error is the process's; a test may have put another
    there.
    """
    try:
        return sys.stderr.fileno() == 2
    except (OSError, ValueError, AttributeError):
        return False
