"""Another user of the machine cannot get into the embedded PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from queenmq.storage.embedded import EmbeddedPostgres

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]

#: Of nobody in particular.
STRANGER = 54_321


@pytest.fixture(scope="module")
def data_dir() -> Iterator[Path]:
    # Open to everybody down to the data directory, whose own modes have to do.
    with tempfile.TemporaryDirectory(prefix="queen-other-") as home:
        os.chmod(home, 0o755)
        yield Path(home) / "data"


@pytest.fixture(scope="module")
def server(data_dir: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(data_dir) as running:
        yield running


def as_stranger(work: Callable[[], Any]) -> Any:
    """Return the result of the work as another user, or the name of its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(STRANGER, STRANGER, STRANGER)
            os.setresuid(STRANGER, STRANGER, STRANGER)
            # Otherwise the driver fails at files of root's, and proves nothing.
            os.environ["HOME"] = "/nonexistent"
            result = work()
        except BaseException as error:
            result = type(error).__name__
        os.write(writing, pickle.dumps(result))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(content)


def connect(url: str, **more: Any) -> str:
    async def ask() -> str:
        connection = await asyncpg.connect(url, timeout=10, ssl=False, **more)
        try:
            return str(await connection.fetchval("SELECT current_user"))
        finally:
            await connection.close()

    return asyncio.run(ask())


def test_the_owner_gets_in_both_ways(server: EmbeddedPostgres) -> None:
    # Otherwise the refusals below would prove nothing.
    assert connect(server.url) and connect(server.socket_url)


def test_another_user_does_not_get_in_by_the_socket(server: EmbeddedPostgres) -> None:
    url = server.socket_url
    assert as_stranger(lambda: connect(url)) == "PermissionError"


@pytest.mark.parametrize("password", ["", "guess", None], ids=["empty", "wrong", "none"])
def test_another_user_does_not_get_in_by_tcp(
    server: EmbeddedPostgres, password: str | None
) -> None:
    parts = urlsplit(server.url)
    user, host = parts.username, f"{parts.hostname}:{parts.port}"
    bare = f"postgresql://{user}@{host}{parts.path}"
    outcome = as_stranger(lambda: connect(bare, password=password))
    assert outcome == "InvalidPasswordError", outcome


def test_another_user_reads_no_file_of_it(server: EmbeddedPostgres, data_dir: Path) -> None:
    found = [data_dir, *data_dir.rglob("*")]
    assert len(found) > 100

    def readable() -> list[str]:
        opened = []
        for path in found:
            try:
                (os.listdir if os.path.isdir(path) else open)(path)  # type: ignore[operator]
                opened.append(str(path))
            except OSError:
                continue
        return opened

    assert as_stranger(readable) == []
    # The password is on no command line either, which everybody can read.
    password = urlsplit(server.url).password
    assert password
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(password.encode() in line for line in lines)
