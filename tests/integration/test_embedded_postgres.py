"""The embedded server for real: start and stop, failures, rival starts, and all kinds of users.

Run as root, pytest's own temporary directory is closed to everybody else, so most tests here also
run postgres through the closed-directory path; the ones for an open directory say so.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from queenmq.storage.embedded import (
    DataDirInUse,
    DataDirUnusable,
    EmbeddedPostgres,
    EmbeddedPostgresError,
    NoClusterFound,
    PostgresFailed,
    read_url,
    supervisor,
)
from queenmq.storage.embedded.binaries import Binaries, find_binaries
from queenmq.storage.sql_files import load_queries
from tests.support.embedded_server import (
    SOON_S,
    Broker,
    count_rows,
    family_of,
    fetch_value,
    is_running,
    keeper_of,
    status_of,
    store_rows,
    wait_gone,
)
from tests.support.folders import make_folder
from tests.support.waiting import wait_until, wait_until_async

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="root's own rules; this is a plain user")
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A directory that everybody may pass and use."""
    directory = make_folder()
    directory.chmod(0o777)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server for tests that only look."""
    with EmbeddedPostgres(tmp_path_factory.mktemp("shared"), shared_buffers_mb=16) as server:
        yield server


def _copy_binaries(to: Path) -> Binaries:
    source = find_binaries().directory.parent
    package = source.parent
    copied = shutil.copytree(source, to / package.name / source.name)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, to / libraries.name)
    return Binaries(copied / "bin")


class TestStartAndStop:
    async def test_server_answers_on_both_urls(self, shared_server: EmbeddedPostgres) -> None:
        for url in (shared_server.url, shared_server.socket_url):
            assert await fetch_value(url, "SELECT current_user || current_database()") == (
                "queenqueen"
            )

    async def test_tcp_needs_the_password(self, shared_server: EmbeddedPostgres) -> None:
        head, _, tail = shared_server.url.rpartition("@")
        wrong = head.rpartition(":")[0] + ":wrong@" + tail
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(wrong)

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("data_checksums", "on"),
            ("fsync", "on"),
            ("synchronous_commit", "on"),
            ("full_page_writes", "on"),
            ("listen_addresses", "127.0.0.1"),
            ("server_encoding", "UTF8"),
            ("jit", "off"),
            ("TimeZone", "UTC"),
        ],
    )
    async def test_server_has_its_settings(
        self, shared_server: EmbeddedPostgres, name: str, expected: str
    ) -> None:
        assert await fetch_value(shared_server.url, f"SHOW {name}") == expected

    async def test_statement_statistics_can_be_loaded(
        self, make_server: Callable[..., EmbeddedPostgres], data_dir: Path
    ) -> None:
        server = make_server(data_dir, shared_preload_libraries="pg_stat_statements")
        server.start()
        await fetch_value(server.url, "CREATE EXTENSION pg_stat_statements")
        assert await fetch_value(server.url, "SELECT count(*) > 0 FROM pg_stat_statements")
        # What the statistics of the API say of them: ours alone, and no password.
        queries = load_queries("observation/postgres_stats")
        assert await fetch_value(server.url, queries["has_statements"])
        await fetch_value(server.url, "SELECT 'planted' AS \"queen.x\"")
        await fetch_value(server.url, "CREATE ROLE \"queen.r\" PASSWORD 'planted'")
        listed = queries["slow_statements"].rstrip(";")
        text = await fetch_value(server.url, f"SELECT string_agg(l.query, '') FROM ({listed}) l")
        assert '"queen.x"' in text and "planted" not in text

    async def test_statements_are_not_counted_by_default(
        self, shared_server: EmbeddedPostgres
    ) -> None:
        queries = load_queries("observation/postgres_stats")
        assert await fetch_value(shared_server.url, queries["has_statements"]) is False

    async def test_rows_and_port_survive_a_restart(
        self, server: EmbeddedPostgres, data_dir: Path
    ) -> None:
        url = server.url
        await store_rows(url)
        server.stop()
        server.start()
        assert server.url == url
        assert await count_rows(url) == 100

    def test_stop_may_come_early_and_often(self, data_dir: Path) -> None:
        server = EmbeddedPostgres(data_dir)
        server.stop()
        server.start()
        server.stop()
        server.stop()
        assert server.postmaster_pid is None

    def test_stop_ends_the_keeper_and_every_postgres_process(
        self, server: EmbeddedPostgres, data_dir: Path
    ) -> None:
        assert server.postmaster_pid is not None
        pids = {keeper_of(data_dir), *family_of(server.postmaster_pid)}
        server.stop()
        assert not any(map(is_running, pids))

    def test_urls_are_refused_before_start(self, data_dir: Path) -> None:
        with pytest.raises(EmbeddedPostgresError, match="not started"):
            _ = EmbeddedPostgres(data_dir).url

    def test_url_can_be_read_from_running_and_stopped_clusters(
        self, server: EmbeddedPostgres, data_dir: Path
    ) -> None:
        urls = server.url, server.socket_url
        assert (read_url(data_dir), read_url(data_dir, socket=True)) == urls
        server.stop()
        assert (read_url(data_dir), read_url(data_dir, socket=True)) == urls

    def test_url_of_a_directory_without_cluster_is_refused(self, tmp_path: Path) -> None:
        for directory in (tmp_path, tmp_path / "missing"):
            with pytest.raises(NoClusterFound, match="holds no embedded PostgreSQL cluster"):
                read_url(directory)

    def test_secrets_are_private(self, server: EmbeddedPostgres, data_dir: Path) -> None:
        assert stat.S_IMODE(data_dir.stat().st_mode) & 0o007 == 0
        for name in ("password", "runtime.json", "postgres.log", "broker.lock", "cluster.lock"):
            assert stat.S_IMODE((data_dir / name).stat().st_mode) == 0o600
        for name in ("postgres", "socket"):
            assert stat.S_IMODE((data_dir / name).stat().st_mode) == 0o700

    def test_another_port_is_taken_when_the_old_one_is_not_free(
        self, server: EmbeddedPostgres
    ) -> None:
        old_port = int(server.url.rpartition(":")[2].partition("/")[0])
        server.stop()
        with socket.socket() as squatter:
            squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            squatter.bind(("127.0.0.1", old_port))
            squatter.listen()
            server.start()
            assert f":{old_port}/" not in server.url

    async def test_long_path_moves_only_the_socket(
        self, make_server: Callable[..., EmbeddedPostgres], tmp_path: Path
    ) -> None:
        data_dir = tmp_path / ("d" * 120)
        server = make_server(data_dir)
        server.start()
        assert str(data_dir) not in server.socket_url
        assert await fetch_value(server.socket_url, "SELECT 1") == 1
        socket_dir = Path(json.loads((data_dir / "runtime.json").read_text())["socket_dir"])
        assert stat.S_IMODE(socket_dir.stat().st_mode) == 0o700
        server.stop()
        assert not socket_dir.exists()

    @pytest.mark.parametrize("name", ['it\'s a "b" & c%20', "a,b"], ids=["quotes", "comma"])
    async def test_path_may_hold_odd_characters(
        self, make_server: Callable[..., EmbeddedPostgres], tmp_path: Path, name: str
    ) -> None:
        server = make_server(tmp_path / name)
        server.start()
        assert await fetch_value(server.socket_url, "SELECT 1") == 1


class TestFailures:
    def test_bad_setting_is_named_and_nothing_is_left(
        self, make_server: Callable[..., EmbeddedPostgres], data_dir: Path
    ) -> None:
        with pytest.raises(PostgresFailed, match="no_such_setting"):
            make_server(data_dir, no_such_setting="1").start()
        assert not is_running(keeper_of(data_dir))
        make_server(data_dir).start()

    async def test_log_is_bounded(
        self, make_server: Callable[..., EmbeddedPostgres], data_dir: Path
    ) -> None:
        server = make_server(data_dir, log_statement="all")
        server.start()
        connection = await asyncpg.connect(server.url)
        for _ in range(12):
            await connection.execute(f"SELECT 1 /* {'x' * 1_000_000} */")
        await connection.close()
        log, older = data_dir / "postgres.log", data_dir / "postgres.log.1"
        await wait_until_async(
            lambda: older.exists() and log.stat().st_size < 1_000_000,
            timeout_s=SOON_S,
            what="the log to be cut",
        )
        assert older.stat().st_size > 10_000_000
        assert await fetch_value(server.url, "SELECT 1") == 1

    def test_files_in_the_clusters_place_are_left_alone(self, data_dir: Path) -> None:
        (data_dir / "postgres").mkdir(parents=True)
        (data_dir / "postgres" / "precious").touch()
        with pytest.raises(DataDirUnusable, match="holds files but no cluster"):
            EmbeddedPostgres(data_dir).start()
        assert (data_dir / "postgres" / "precious").exists()

    def test_a_file_in_place_of_the_directory_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "data").write_text("mine")
        with pytest.raises(DataDirUnusable, match="data is a file; name a directory"):
            EmbeddedPostgres(tmp_path / "data").start()

    def test_cluster_of_another_version_is_refused(
        self, server: EmbeddedPostgres, data_dir: Path
    ) -> None:
        server.stop()
        (data_dir / "postgres" / "PG_VERSION").write_text("9\n")
        with pytest.raises(EmbeddedPostgresError, match="is of PostgreSQL 9"):
            server.start()

    def test_keeper_imports_nothing_of_the_broker(self) -> None:
        script = "import sys, queenmq.storage.embedded.keeper; print(*sys.modules)"
        run = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        loaded = set(run.stdout.split())
        assert not loaded & {"asyncio", "asyncpg", "httpx", "msgspec", "starlette", "typer"}
        ours = {name for name in loaded if name.startswith("queenmq.")}
        assert ours == {
            "queenmq.storage",
            "queenmq.storage.embedded",
            "queenmq.storage.embedded.keeper",
            "queenmq.storage.embedded.keeper_decisions",
            "queenmq.storage.embedded.postmaster",
            "queenmq.version",
        }


class TestSecondStart:
    def test_live_data_dir_is_refused_and_its_owner_named(
        self, make_broker: Callable[..., Broker], data_dir: Path
    ) -> None:
        broker = make_broker(data_dir).wait_ready()
        with pytest.raises(DataDirInUse, match=f"in use by process {broker.process.pid}, a"):
            EmbeddedPostgres(data_dir).start()

    async def test_refused_start_does_not_disturb_the_owner(
        self, server: EmbeddedPostgres, data_dir: Path
    ) -> None:
        second = EmbeddedPostgres(data_dir)
        with pytest.raises(DataDirInUse):
            second.start()
        second.stop()
        assert await fetch_value(server.url, "SELECT 1") == 1

    def test_exactly_one_of_many_simultaneous_starts_wins(
        self, make_broker: Callable[..., Broker], data_dir: Path
    ) -> None:
        brokers = [make_broker(data_dir) for _ in range(4)]

        def losers() -> list[Broker]:
            return [broker for broker in brokers if broker.process.poll() is not None]

        wait_until(lambda: len(losers()) == 3, timeout_s=SOON_S, what="three losers")
        (winner,) = set(brokers) - set(losers())
        winner.wait_ready()
        for loser in losers():
            assert loser.process.stderr is not None
            assert "DataDirInUse" in loser.process.stderr.read()


@only_linux
class TestUsers:
    @only_root
    async def test_root_runs_postgres_below_a_closed_directory(
        self, make_server: Callable[..., EmbeddedPostgres], tmp_path: Path
    ) -> None:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o700)
        server = make_server(closed / "deeper" / "data")
        server.start()
        assert server.postmaster_pid is not None
        status = status_of(server.postmaster_pid)
        assert "0" not in status["Uid"]
        assert int(status["CapEff"][0], 16) in (1 << 1, 1 << 2)
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
        assert closed.stat().st_uid == 0
        assert await fetch_value(server.socket_url, "SELECT 1") == 1

    @only_root
    async def test_root_gives_postgres_no_capability_below_open_directories(
        self,
        make_server: Callable[..., EmbeddedPostgres],
        open_dir: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # The installed binaries may lie below a closed directory; a copy in the open does not.
        copied = _copy_binaries(open_dir)
        monkeypatch.setattr(supervisor, "find_binaries", lambda: copied)
        server = make_server(open_dir / "data")
        server.start()
        assert server.postmaster_pid is not None
        status = status_of(server.postmaster_pid)
        assert "0" not in status["Uid"]
        assert int(status["CapEff"][0], 16) == 0
        assert status["Groups"] == []
        assert await fetch_value(server.url, "SELECT 1") == 1

    @only_root
    async def test_root_runs_binaries_that_lie_below_a_closed_directory(
        self,
        make_server: Callable[..., EmbeddedPostgres],
        open_dir: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o700)
        copied = _copy_binaries(closed)
        monkeypatch.setattr(supervisor, "find_binaries", lambda: copied)
        server = make_server(open_dir / "data")
        server.start()
        assert server.postmaster_pid is not None
        assert "0" not in status_of(server.postmaster_pid)["Uid"]
        assert await fetch_value(server.url, "SELECT 1") == 1

    @only_root
    def test_root_takes_over_a_cluster_that_was_restored_as_root(
        self, server: EmbeddedPostgres, data_dir: Path
    ) -> None:
        server.stop()
        for path in [data_dir / "postgres", *(data_dir / "postgres").rglob("*")]:
            os.chown(path, 0, 0, follow_symlinks=False)
        server.start()
        assert (data_dir / "postgres" / "PG_VERSION").stat().st_uid != 0

    @only_root
    async def test_plain_user_runs_postgres_as_itself(
        self, make_broker: Callable[..., Broker], open_dir: Path
    ) -> None:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("no setpriv to become a plain user with")
        nobody = 65534
        # Python and the package may lie below root's home, hence the capability for reading.
        broker = make_broker(
            open_dir / "data",
            prefix=(
                setpriv,
                f"--reuid={nobody}",
                f"--regid={nobody}",
                "--clear-groups",
                "--securebits=+no_setuid_fixup",
                "--inh-caps=+dac_read_search",
                "--ambient-caps=+dac_read_search",
                "--",
            ),
        ).wait_ready()
        assert broker.postmaster is not None and broker.keeper is not None
        assert set(status_of(broker.postmaster)["Uid"]) == {str(nobody)}
        assert stat.S_IMODE((open_dir / "data").stat().st_mode) == 0o700
        assert await fetch_value(broker.url, "SELECT 1") == 1
        pids = {broker.keeper, *family_of(broker.postmaster)}
        broker.kill()
        wait_gone(pids)

    @only_root
    async def test_root_keeps_a_plain_users_cluster_usable_by_that_user(
        self, make_broker: Callable[..., Broker], open_dir: Path
    ) -> None:
        data_dir = open_dir / "data"
        data_dir.mkdir()
        os.chown(data_dir, 65534, 65534)
        (data_dir / "postgres").mkdir(mode=0o700)
        os.chown(data_dir / "postgres", 65534, 65534)
        broker = make_broker(data_dir).wait_ready()
        assert broker.postmaster is not None
        assert set(status_of(broker.postmaster)["Uid"]) == {"65534"}
        for name in ("password", "runtime.json", "postgres.log", "broker.lock"):
            assert (data_dir / name).stat().st_uid == 65534
