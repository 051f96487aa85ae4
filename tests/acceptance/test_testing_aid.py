"""A user's test suite gets a broker by importing one name."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from queenmq import QueenError
from queenmq.testing import running_broker
from tests.support.broker import SOON_S

CONFTEST = "from queenmq.testing import queen_broker\n"
TEST = """
import asyncio

def test_plain(queen_broker):
    queen_broker.client.push("orders", {"total": 5})
    (message,) = queen_broker.client.pop("orders")
    assert message.data == {"total": 5}

def test_async(queen_broker):
    async def main():
        async with queen_broker.queen() as queen:
            await queen.push("others", 1)
            return await queen.pop("others")
    assert [message.data for message in asyncio.run(main())] == [1]
    print("ran on", queen_broker.url)
"""


def test_a_suite_with_the_fixture_passes_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_orders.py").write_text(TEST)
    # Not pytest's own directory: its path is too long for a socket and closed to other users.
    homes = Path(tempfile.mkdtemp(prefix="queen-test-"))
    homes.chmod(0o755)
    environ = {**os.environ, "TMPDIR": str(homes), "QUEEN_DATABASE_URL": "postgresql://nowhere"}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-s", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=2 * SOON_S,
        env=environ,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 passed" in run.stdout and "ran on http://127.0.0.1:" in run.stdout
    homes.rmdir()


def test_a_broker_that_cannot_start_says_why() -> None:
    with pytest.raises(QueenError, match="--workers"):
        with running_broker("--workers", "0"):
            pass
