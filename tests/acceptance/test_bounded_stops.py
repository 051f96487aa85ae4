"""A stop ends within its time limit, even in front of a database that hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from queenmq.errors import StorageUnavailable
from queenmq.server.stop_time import StopTime
from queenmq.storage.connection import connecting
from queenmq.storage.connection.server_choice import ServerState
from tests.acceptance.load import Wire, pop_path
from tests.support.broker import SOON_S, BrokerProcess, running_broker, unique
from tests.support.own_postgres import OwnPostgres

#: Calls that hang are neither noticed nor given up while the test waits for the broker's end.
_PATIENT = {
    "QUEEN_DB_HANG_MS": "600000",
    "QUEEN_DB_COMMAND_TIMEOUT_MS": "600000",
    "QUEEN_DB_CONNECT_TIMEOUT_MS": "600000",
    "QUEEN_SHUTDOWN_TIMEOUT_MS": "200",
}


@pytest.fixture
def broker(server: OwnPostgres, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker on a server that the test may freeze."""
    environ = {"QUEEN_SPOOL_DIR": str(tmp_path / "spool"), **_PATIENT}
    with running_broker(database_url=server.url, **environ) as process:
        yield process
        server.close()


@pytest.mark.parametrize("work", ["pop", "push", "nothing"])
async def test_a_broker_ends_in_front_of_a_database_that_hangs(
    work: str, server: OwnPostgres, broker: BrokerProcess
) -> None:
    queue = unique()
    async with Wire(broker.url) as wire, Wire(broker.url) as other:
        assert (await wire.push(queue, "first")).status == 201
        server.freeze()
        if work == "pop":
            wire.send("GET", pop_path(queue))
        elif work == "push":
            item = {"queue": queue, "payload": "second"}
            wire.send("POST", "/api/v1/push", {"items": [item]})
        # Comes back when the broker has read the request above.
        await other.call("GET", "/health")
        assert await asyncio.to_thread(broker.stop) == 0
    # The request that was cut off is reported. Nothing else went wrong.
    assert [line for line in broker.log if "event=request_failed" not in line] == []


async def test_a_connection_that_is_being_opened_ends_with_the_others(
    server: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_asked = asyncio.Event()
    read_state = connecting._read_state

    async def ask_a_frozen_server(connection: connecting.ServerConnection) -> ServerState:
        server.freeze()
        is_asked.set()
        return await read_state(connection)

    monkeypatch.setattr(connecting, "_read_state", ask_a_frozen_server)
    connector = connecting.Connector(server.url, timeout_ms=600_000)
    opening = asyncio.create_task(connector.connect())
    await asyncio.wait_for(is_asked.wait(), SOON_S)
    connector.drop_all()
    with pytest.raises(StorageUnavailable):
        await asyncio.wait_for(opening, SOON_S)


async def test_a_close_that_blocks_does_not_hold_up_a_stop() -> None:
    may_end, has_ended = threading.Event(), threading.Event()

    def close() -> None:
        may_end.wait(SOON_S)
        has_ended.set()

    time = StopTime(0)
    time.closed_until_s = time.work_until_s
    await time.close_in_thread(close)
    assert not has_ended.is_set()
    may_end.set()
    assert await asyncio.to_thread(has_ended.wait, SOON_S)
    await StopTime(600_000).close_in_thread(close)
