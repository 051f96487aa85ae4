"""The README as a newcomer runs it: its blocks in order, in one shell, beside one broker.

A comment above a block says what the test does with it: `<!-- test: in the background -->`,
`<!-- test: make jobs -->` (with the long tests of Spark only), or
`<!-- test: not run, because ... -->`.
A block of `text` or `json` is the output of the block before it. Port 6632 is replaced by a free
one, in the blocks and by QUEEN_URL and QUEEN_PORT.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.broker import SOON_S
from tests.support.waiting import wait_until
from tests.tidy.repo import ROOT

_BLOCK = re.compile(r"(?:^<!-- test: ([^\n]*?) -->\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
#: What a newcomer's folder has to have. Examples are written to, so they are a copy.
_LINKED = ("Makefile", "pyproject.toml", "constraints.txt", "constraints-spark.txt", "src")
_MARK = "@@ block"


class Block(NamedTuple):
    """A block of the README."""

    number: int
    language: str
    text: str
    mark: str

    @property
    def is_run(self) -> bool:
        return self.language in ("sh", "python", "sql") and not self.mark.startswith("not run")


def blocks() -> list[Block]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return [
        Block(number, language, body, mark)
        for number, (mark, language, body) in enumerate(_BLOCK.findall(text))
    ]


class Folder(NamedTuple):
    """A clone with a running broker."""

    path: Path
    environ: Mapping[str, str]
    port: int

    def run(self, chosen: list[Block], *, timeout_s: float) -> dict[int, str]:
        """Run blocks in one shell; what each printed. The first that fails ends it."""
        script = ["set -e -o pipefail"]
        for block in chosen:
            script += [f"echo; echo '{_MARK} {block.number}'", self._command(block)]
        done = subprocess.run(
            ["bash", "-c", "\n".join(script)],
            cwd=self.path,
            env=dict(self.environ),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        pieces = re.split(rf"\n{_MARK} (\d+)\n", done.stdout)[1:]
        return {int(number): out for number, out in zip(pieces[::2], pieces[1::2], strict=True)}

    def _command(self, block: Block) -> str:
        text = block.text.replace("6632", str(self.port))
        if block.language == "sh":
            return text
        file = self.path / f"block{block.number}.{block.language}"
        file.write_text(text)
        if block.language == "python":
            return f"python -W error::ResourceWarning {file.name}"
        # Any client will do; asyncpg is there.
        return f'python {_sql_runner(self.path)} "$(queen db url)" {file.name}'


def _sql_runner(path: Path) -> str:
    file = path / "run_sql.py"
    file.write_text(
        "import asyncio, pathlib, sys\nimport asyncpg\n\n"
        "async def main() -> None:\n"
        "    session = await asyncpg.connect(sys.argv[1])\n"
        "    await session.execute(pathlib.Path(sys.argv[2]).read_text())\n"
        "    await session.close()\n\n"
        "asyncio.run(main())\n"
    )
    return file.name


@contextlib.contextmanager
def cloned(path: Path, starter: Block) -> Iterator[Folder]:
    """A folder as after a clone, with the broker that the README starts in the background."""
    for name in _LINKED:
        (path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "examples", path / "examples")
    _make_environment(path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("QUEEN_")}
    environ = {
        **kept,
        "QUEEN_PORT": str(port),
        "QUEEN_URL": f"http://127.0.0.1:{port}",
        "XDG_CONFIG_HOME": str(path / "config"),
        "TZ": "UTC",
    }
    environ.pop("COLUMNS", None)
    process = subprocess.Popen(
        ["bash", "-c", f"exec {starter.text}"],
        cwd=path,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    said: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=said.extend, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        wait_until(
            lambda: any("Queen is ready on" in line for line in said),
            timeout_s=4 * SOON_S,
            what="the broker of the README",
        )
        yield Folder(path, environ, port)
    finally:
        # As Ctrl-C does: to make and all that it has started.
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=SOON_S)
        reader.join(timeout=SOON_S)
        process.stdout.close()


def _make_environment(path: Path) -> None:
    """Make a .venv that looks like make's, with nothing to install, and leads to that of the run.

    Not a link to it: make would install into it when it is older than pyproject.toml.
    """
    home = Path(sys.prefix)
    binaries = path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    for name in ("queen", "python"):
        (binaries / name).symlink_to(home / "bin" / name)
    (binaries / "activate").write_text(f'export PATH="{home / "bin"}:$PATH"\n')
    for stamp in ("server", "spark", "dev"):
        (path / ".venv" / f".ready-{stamp}").touch()


def comparable(text: str) -> Any:
    """An output without what differs from run to run: ids, times, ports, and the order of lines,
    which is not promised between partitions.
    """
    text = re.sub(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", "ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"\b\d+[smhd]\b", "AGE", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "SERVER", text)
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return sorted(line.split() for line in text.strip().splitlines())
