"""Every way in which a part of the embedded server can die, and what must be left afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from queenmq.storage.embedded import EmbeddedPostgres, PostgresFailed
from tests.support.embedded_server import (
    SOON_S,
    Broker,
    count_rows,
    family_of,
    fetch_value,
    is_running,
    keeper_of,
    store_rows,
    wait_gone,
)
from tests.support.waiting import wait_until, wait_until_async

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


class TestDeaths:
    async def test_killed_broker_leaves_no_process_and_no_row_is_lost(
        self,
        make_broker: Callable[..., Broker],
        make_server: Callable[..., EmbeddedPostgres],
        data_dir: Path,
    ) -> None:
        broker = make_broker(data_dir).wait_ready()
        assert broker.postmaster is not None and broker.keeper is not None
        await store_rows(broker.url)
        pids = {broker.keeper, *family_of(broker.postmaster)}
        broker.kill()
        wait_gone(pids)
        assert not (data_dir / "postgres" / "postmaster.pid").exists()
        server = make_server(data_dir)
        server.start()
        assert await count_rows(server.url) == 100

    async def test_start_right_after_a_killed_broker_waits_for_its_keeper(
        self,
        make_broker: Callable[..., Broker],
        make_server: Callable[..., EmbeddedPostgres],
        data_dir: Path,
    ) -> None:
        broker = make_broker(data_dir).wait_ready()
        assert broker.postmaster is not None
        # A stopped postmaster cannot shut down, so the keeper certainly still has the lock.
        os.kill(broker.postmaster, signal.SIGSTOP)
        broker.kill()
        heir = make_broker(data_dir)
        log = data_dir / "postgres.log"
        wait_until(
            lambda: "stopping postgres" in log.read_text(), timeout_s=SOON_S, what="keeper's note"
        )
        assert heir.process.poll() is None
        os.kill(broker.postmaster, signal.SIGCONT)
        heir.wait_ready()
        assert await fetch_value(heir.url, "SELECT 1") == 1

    async def test_forked_worker_does_not_hide_the_brokers_death(
        self, make_broker: Callable[..., Broker], data_dir: Path
    ) -> None:
        broker = make_broker(data_dir, "fork").wait_ready()
        assert broker.postmaster is not None and broker.keeper is not None
        broker.kill()
        wait_gone({broker.keeper, broker.postmaster})
        assert broker.worker is not None and is_running(broker.worker)

    async def test_killed_postmaster_is_restarted_with_every_row(
        self, server: EmbeddedPostgres
    ) -> None:
        await store_rows(server.url)
        killed = server.postmaster_pid
        assert killed is not None
        # A backend that computes does not notice the death of its postmaster by itself.
        busy = await asyncpg.connect(server.url)
        busy_pid = await busy.fetchval("SELECT pg_backend_pid()")
        work = asyncio.create_task(busy.execute("SELECT count(*) FROM generate_series(1, 1e10)"))
        await wait_until_async(
            lambda: self._is_active(server.url, busy_pid), timeout_s=SOON_S, what="busy backend"
        )
        os.kill(killed, signal.SIGKILL)
        with pytest.raises((asyncpg.PostgresError, OSError, asyncpg.InterfaceError)):
            await work
        await wait_until_async(
            lambda: server.postmaster_pid not in (None, killed), timeout_s=SOON_S, what="restart"
        )

        async def rows() -> object:
            with contextlib.suppress(OSError, asyncpg.CannotConnectNowError):
                return await count_rows(server.url)
            return None

        assert await wait_until_async(rows, timeout_s=SOON_S, what="rows") == 100
        server.check()

    async def _is_active(self, url: str, pid: int) -> object:
        return await fetch_value(
            url, f"SELECT true FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'"
        )

    async def test_killed_keeper_is_noticed_and_stop_still_stops(
        self, server: EmbeddedPostgres, data_dir: Path
    ) -> None:
        postmaster, keeper = server.postmaster_pid, keeper_of(data_dir)
        assert postmaster is not None
        os.kill(keeper, signal.SIGKILL)
        wait_until(lambda: not is_running(keeper), timeout_s=SOON_S, what="keeper's end")
        with pytest.raises(PostgresFailed, match=f"process {keeper}"):
            server.check()
        assert await fetch_value(server.url, "SELECT 1") == 1
        server.stop()
        assert not is_running(postmaster)

    async def test_start_takes_over_from_a_postmaster_that_nobody_keeps(
        self,
        make_broker: Callable[..., Broker],
        make_server: Callable[..., EmbeddedPostgres],
        data_dir: Path,
    ) -> None:
        broker = make_broker(data_dir).wait_ready()
        assert broker.postmaster is not None and broker.keeper is not None
        await store_rows(broker.url)
        os.kill(broker.keeper, signal.SIGKILL)
        wait_until(lambda: not is_running(broker.keeper or 0), timeout_s=SOON_S, what="its end")
        broker.kill()
        assert is_running(broker.postmaster)
        server = make_server(data_dir)
        server.start()
        assert not is_running(broker.postmaster)
        assert server.postmaster_pid != broker.postmaster
        assert await count_rows(server.url) == 100

    async def test_start_recovers_when_everything_was_killed_and_the_pid_is_reused(
        self,
        make_broker: Callable[..., Broker],
        make_server: Callable[..., EmbeddedPostgres],
        data_dir: Path,
    ) -> None:
        broker = make_broker(data_dir).wait_ready()
        assert broker.postmaster is not None and broker.keeper is not None
        await store_rows(broker.url)
        pids = family_of(broker.postmaster)
        os.kill(broker.keeper, signal.SIGKILL)
        broker.kill()
        os.kill(broker.postmaster, signal.SIGKILL)
        wait_gone(pids)
        # The stale files now name a live process that is no postmaster: this one.
        for stale in [data_dir / "postgres" / "postmaster.pid", *data_dir.glob("socket/.*.lock")]:
            stale.write_text(stale.read_text().replace(str(broker.postmaster), str(os.getpid()), 1))
        server = make_server(data_dir)
        server.start()
        assert await count_rows(server.url) == 100

    async def test_start_waits_for_a_backend_that_outlived_its_postmaster(
        self, make_broker: Callable[..., Broker], data_dir: Path
    ) -> None:
        broker = make_broker(data_dir).wait_ready()
        assert broker.postmaster is not None and broker.keeper is not None
        connection = await asyncpg.connect(broker.url)
        backend = await connection.fetchval("SELECT pg_backend_pid()")
        others = family_of(broker.postmaster) - {backend}
        # Stopped, it cannot notice that its postmaster dies, and holds on to the shared memory.
        os.kill(backend, signal.SIGSTOP)
        os.kill(broker.keeper, signal.SIGKILL)
        broker.kill()
        os.kill(broker.postmaster, signal.SIGKILL)
        wait_gone(others)
        heir = make_broker(data_dir)
        log = data_dir / "postgres.log"
        wait_until(
            lambda: "pre-existing shared memory" in log.read_text(),
            timeout_s=SOON_S,
            what="postgres to refuse",
        )
        os.kill(backend, signal.SIGCONT)
        heir.wait_ready()
        connection.terminate()
        assert not is_running(backend)

    async def test_signals_of_a_terminal_do_not_end_the_keeper(
        self, make_broker: Callable[..., Broker], data_dir: Path
    ) -> None:
        broker = make_broker(data_dir, "deaf").wait_ready()
        assert broker.keeper is not None
        os.killpg(broker.process.pid, signal.SIGINT)
        for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(broker.keeper, kind)
        assert await fetch_value(broker.url, "SELECT 1") == 1
        assert os.getsid(broker.keeper) != os.getsid(broker.process.pid)
        assert is_running(broker.keeper)

    async def test_start_killed_in_the_middle_of_initdb_does_not_spoil_the_directory(
        self,
        make_broker: Callable[..., Broker],
        make_server: Callable[..., EmbeddedPostgres],
        data_dir: Path,
    ) -> None:
        broker = make_broker(data_dir)
        wait_until(
            lambda: list(data_dir.glob("postgres.init-*/base")), timeout_s=SOON_S, what="initdb"
        )
        broker.kill()
        assert not (data_dir / "postgres").exists()
        server = make_server(data_dir)
        server.start()
        assert await fetch_value(server.url, "SELECT 1") == 1
        assert not list(data_dir.glob("postgres.init-*"))
