"""`queen` as tests call it: in this process, or as one of its own where that makes a difference."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from queenmq.cli import main
from tests.support.broker import SOON_S
from tests.support.waiting import wait_until

#: Variables by which a developer's own set-up would reach into a test.
FORGOTTEN = (
    "QUEEN_URL",
    "QUEEN_TOKEN",
    "QUEEN_TOKEN_FILE",
    "QUEEN_CONTEXT",
    "QUEEN_DATABASE_URL",
    "NO_COLOR",
    "COLUMNS",
)


class Ended(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """Return the output of -o json."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Return the output of -o ndjson."""
        return [json.loads(line) for line in self.out.splitlines()]


class Cli:
    """Runs commands in this process, against one server."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
    ) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self.url = url
        monkeypatch.setenv("QUEEN_URL", url)

    def __call__(self, *arguments: str, stdin: str | bytes = "") -> Ended:
        content = stdin.encode() if isinstance(stdin, str) else stdin
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
            self._capsys.readouterr()
            code = main.run(list(arguments))
        out, err = self._capsys.readouterr()
        return Ended(code, out, err)

    def ok(self, *arguments: str, stdin: str | bytes = "") -> str:
        """The output of a command that has to work."""
        ended = self(*arguments, stdin=stdin)
        assert (ended.code, ended.err) == (0, ""), ended
        return ended.out


def run_queen(*arguments: str, stdin: str = "", **environ: str) -> Ended:
    """A command as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "queenmq", *arguments],
        capture_output=True,
        text=True,
        timeout=SOON_S,
        input=stdin,
        env={**os.environ, **environ},
    )
    return Ended(done.returncode, done.stdout, done.stderr)


class Terminal:
    """A command on a terminal of its own: what it shows, and what is typed there."""

    def __init__(self, arguments: list[str], environ: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        self.shown = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "queenmq", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            # Ctrl-C goes to the foreground of the terminal that a process has as its own.
            start_new_session=True,
            preexec_fn=_take_terminal,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", **environ},
        )
        os.close(slave)
        os.set_blocking(self._master, False)

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.read(), timeout_s=SOON_S, what=f"{text!r} on the terminal")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read(self) -> str:
        with contextlib.suppress(BlockingIOError, OSError):
            while piece := os.read(self._master, 65536):
                self.shown += piece.decode(errors="replace")
        return self.shown

    def wait(self) -> int:
        """The exit code; everything shown is read meanwhile."""
        wait_until(
            lambda: self.read() is not None and self.process.poll() is not None,
            timeout_s=SOON_S,
            what="the command to end",
        )
        self.read()
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


def _take_terminal() -> None:
    import fcntl
    import signal
    import termios

    # A run in the background of a shell has learnt to ignore it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextlib.contextmanager
def on_terminal(*arguments: str, **environ: str) -> Iterator[Terminal]:
    """A command on a terminal, ended at the latest with the context."""
    terminal = Terminal(list(arguments), environ)
    try:
        yield terminal
    finally:
        terminal.close()
