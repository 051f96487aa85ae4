"""The broker on a PostgreSQL that somebody else runs: the oldest supported, and a pooler."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from queenmq.storage.schema.migrator import migrate
from tests.acceptance.load import Record, Wire, produce_by_http, wires
from tests.integration.test_schema_snapshot import SNAPSHOT
from tests.support.broker import SOON_S, Api, running_broker, unique
from tests.support.folders import make_folder
from tests.support.schema_snapshot import take_snapshot
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

#: Where Debian keeps the release that is the oldest we support.
_DEBIAN_BIN = Path("/usr/lib/postgresql/15/bin")
_POOLED = {"QUEEN_DB_PREPARED_STATEMENTS": "false", "QUEEN_WAKE_LISTEN": "false"}


def _find_bin() -> Path | None:
    """The programs of a PostgreSQL 15, if this machine has them."""
    if (_DEBIAN_BIN / "initdb").exists():
        return _DEBIAN_BIN
    config = shutil.which("pg_config")
    if config is None:
        return None
    said = subprocess.run([config, "--version"], capture_output=True, text=True, check=True).stdout
    where = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=True).stdout
    folder = Path(where.strip())
    return folder if " 15" in said and (folder / "initdb").exists() else None


def _account() -> pwd.struct_passwd | None:
    """Return the account that runs the servers for root, as which they refuse to run."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    pytest.skip("no unprivileged account to run a server as")


def _start(arguments: list[str], home: Path) -> subprocess.Popen[bytes]:
    account = _account()
    with (home / f"{Path(arguments[0]).name}.txt").open("ab") as output:
        return subprocess.Popen(
            arguments,
            cwd=home,
            stdout=output,
            stderr=output,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_listening(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def _running(arguments: list[str], home: Path, port: int) -> Iterator[None]:
    """A server program from when it listens until the end of the context."""
    process = _start(arguments, home)
    try:
        wait_until(
            lambda: process.poll() is not None or _is_listening(port),
            timeout_s=SOON_S,
            what=f"{arguments[0]} to listen",
        )
        output = (home / f"{Path(arguments[0]).name}.txt").read_text()
        assert process.poll() is None, output
        yield
    finally:
        # An immediate end: its data goes with the directory. PostgreSQL knows the first signal as
        # that, PgBouncer the second; the first may be ignored where tests run in the background.
        process.send_signal(signal.SIGQUIT)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=SOON_S)


async def _answers(url: str) -> bool:
    try:
        connection = await asyncpg.connect(url, timeout=5)
    except (OSError, asyncpg.PostgresError):
        return False
    await connection.close()
    return True


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="module")
def old_postgres() -> Iterator[int]:
    """The port of a private PostgreSQL 15."""
    folder = _find_bin()
    if folder is None:
        pytest.skip("this machine has no PostgreSQL 15")
    home = make_folder()
    account = _account()
    if account is not None:
        os.chown(home, account.pw_uid, account.pw_gid)
    try:
        data = str(home / "data")
        words = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C"]
        assert _start([str(folder / "initdb"), "-D", data, *words], home).wait(SOON_S) == 0
        port = _free_port()
        server = [str(folder / "postgres"), "-D", data, "-p", str(port), "-k", str(home)]
        with _running([*server, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"], home, port):
            url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
            wait_until(lambda: asyncio.run(_answers(url)), timeout_s=SOON_S, what="the server")
            asyncio.run(_execute(url, "CREATE ROLE queen LOGIN"))
            yield port
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
async def old_database_url(old_postgres: int) -> AsyncIterator[str]:
    """An empty database on that server, for the ordinary role that owns it."""
    name = unique("q").replace("-", "_")
    superuser = f"postgresql://postgres@127.0.0.1:{old_postgres}/postgres"
    await _execute(superuser, f"CREATE DATABASE {name} OWNER queen")
    try:
        yield f"postgresql://queen@127.0.0.1:{old_postgres}/{name}"
    finally:
        await _execute(superuser, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def pooled_url(old_database_url: str) -> Iterator[str]:
    """The same database through a PgBouncer that hands out connections per transaction."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("this machine has no PgBouncer")
    home = make_folder()
    account = _account()
    if account is not None:
        os.chown(home, account.pw_uid, account.pw_gid)
    address, _, database = old_database_url.rpartition("/")
    port = _free_port()
    # Fewer server connections than a broker opens: calls really move from one to another.
    (home / "pgbouncer.ini").write_text(
        "[databases]\n"
        f"{database} = host=127.0.0.1 port={address.rpartition(':')[2]} user=queen\n"
        "[pgbouncer]\n"
        "listen_addr = 127.0.0.1\n"
        f"listen_port = {port}\n"
        "unix_socket_dir =\n"
        "auth_type = any\n"
        "pool_mode = transaction\n"
        "default_pool_size = 4\n"
        "max_client_conn = 200\n"
    )
    try:
        with _running([program, str(home / "pgbouncer.ini")], home, port):
            yield f"postgresql://queen@127.0.0.1:{port}/{database}"
    finally:
        shutil.rmtree(home, ignore_errors=True)


async def _walk(url: str) -> None:
    """Push, pop, ack, redelivery, dead letter and transaction, as any client would."""
    api, queue = Api(url), unique()
    try:
        await api.configure(queue, retryLimit=0)
        await api.push(queue, 1, 2, partition="p")
        (again,) = await api.push(queue, 1, partition="p", transactionId="one")
        (repeat,) = await api.push(queue, 1, partition="p", transactionId="one")
        assert (again["status"], repeat["status"]) == ("queued", "duplicate")
        assert repeat["message_id"] == again["message_id"]
        (first,) = await api.pop(queue, partition="p", consumerGroup="g")
        assert first["data"] == 1 and await api.pop(queue, consumerGroup="g") == []
        (result,) = await api.ack(first, group="g")
        assert result["success"]
        (second,) = await api.pop(queue, consumerGroup="g")
        (result,) = await api.ack(second, status="failed", error="no good", group="g")
        assert result["dlq"]
        (dead,) = await api.dead_letters(queue)
        assert (dead["data"], dead["errorMessage"]) == (2, "no good")
        (third,) = await api.pop(queue, consumerGroup="g")
        await _transact(api, queue, third)
        assert await api.data(queue, partition="out", consumerGroup="g") == ["out"]
    finally:
        await api.close()


async def _transact(api: Api, queue: str, message: dict[str, str]) -> None:
    ack = {
        "type": "ack",
        "transactionId": message["transactionId"],
        "partitionId": message["partitionId"],
        "leaseId": message["leaseId"],
        "consumerGroup": "g",
    }
    item = {"queue": queue, "partition": "out", "payload": "out", "transactionId": "only once"}
    push = {"type": "push", "items": [item]}
    assert (await api.transaction([push, ack]))["success"]
    refused = await api.transaction([push])
    assert not refused["success"] and "only once" in refused["error"]


async def _load(urls: list[str], *, producers: int, count: int) -> None:
    """Concurrent producers and consumers on one partition."""
    queue, record = unique(), Record()
    total = producers * count
    async with wires(urls * producers) as pushing, wires(urls * 2) as popping:
        async with asyncio.TaskGroup() as tasks:
            for producer, wire in enumerate(pushing[:producers]):
                tasks.create_task(produce_by_http(queue, producer, count)(wire))
            for wire in popping:
                tasks.create_task(record.consume(wire, queue, "g", total))
    record.assert_complete(producers, count)


async def test_oldest_supported_server_gets_the_same_schema(old_database_url: str) -> None:
    assert await migrate(old_database_url)
    assert await migrate(old_database_url) == []
    connection = await asyncpg.connect(old_database_url)
    try:
        assert connection.get_server_version().major == 15
        assert await take_snapshot(connection) == SNAPSHOT.read_text()
    finally:
        await connection.close()


async def test_broker_works_on_the_oldest_supported_server(old_database_url: str) -> None:
    with running_broker(database_url=old_database_url) as broker:
        await _walk(broker.url)
        await _load([broker.url], producers=8, count=100)


async def test_broker_works_behind_a_transaction_pooler(pooled_url: str) -> None:
    with running_broker(database_url=pooled_url, **_POOLED) as broker:
        await _walk(broker.url)
        await _load([broker.url], producers=8, count=100)


async def test_two_brokers_work_behind_a_transaction_pooler(pooled_url: str) -> None:
    with (
        running_broker(database_url=pooled_url, **_POOLED) as first,
        running_broker(database_url=pooled_url, **_POOLED) as second,
    ):
        await _load([first.url, second.url], producers=8, count=100)
        # Nobody notifies behind a pooler: the other broker's poll finds the push by its timer.
        queue = unique()
        async with Wire(first.url) as one, Wire(second.url) as poll:
            await poll.settle()
            poll.send("GET", f"/api/v1/pop/queue/{queue}?wait=true&timeout=30000")
            await one.settle()
            assert (await one.push(queue, 1)).status == 201
            answer = await poll.receive()
            assert answer.status == 200 and answer.body["messages"][0]["data"] == 1


async def test_no_session_state_is_left_on_a_pooled_connection(pooled_url: str) -> None:
    with running_broker(database_url=pooled_url, **_POOLED) as broker:
        await _walk(broker.url)
        await _load([broker.url], producers=4, count=20)
        sessions = [await asyncpg.connect(pooled_url, statement_cache_size=0) for _ in range(4)]
        try:
            for session in sessions:
                async with session.transaction():
                    for name, value in (("lock_timeout", "0"), ("plan_cache_mode", "auto")):
                        shown = await session.fetchval(f"SELECT current_setting('{name}')")
                        assert shown == value, name
        finally:
            for session in sessions:
                await session.close()
