"""Owns single keys that are pressed while a command shows something."""

from __future__ import annotations

import contextlib
import select
import sys
import threading
from typing import Any, Self


class Keys:
    """Reads single keys. Without a terminal, it only waits."""

    def __init__(self) -> None:
        self._is_there = sys.stdin.isatty()
        self._before: Any = None

    def __enter__(self) -> Self:
        if self._is_there:
            import termios
            import tty

            self._before = termios.tcgetattr(sys.stdin)
            # Ctrl-C still is a signal.
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            import termios

            with contextlib.suppress(termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str:
        """Return the key that is pressed within this time, or an empty text."""
        if not self._is_there:
            threading.Event().wait(seconds)
            return ""
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return sys.stdin.read(1) if ready else ""
