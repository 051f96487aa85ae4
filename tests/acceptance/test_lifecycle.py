"""Starting, stopping and sharing: signals, workers, a second broker, bad settings."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from queenmq.storage.embedded.layout import Layout
from queenmq.storage.embedded.postmaster import running_postmaster
from tests.acceptance.load import Wire, pop_path, wires
from tests.acceptance.sql_side import PATIENT
from tests.support.broker import SOON_S, BrokerProcess, running_broker, unique
from tests.support.embedded_server import family_of, is_running, wait_gone
from tests.support.waiting import wait_until_async

StartBroker = Callable[..., BrokerProcess]
StartOwner = Callable[..., BrokerProcess]


def _run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "queenmq", *arguments],
        capture_output=True,
        text=True,
        timeout=SOON_S,
        check=False,
        env={**os.environ, **environ},
    )


def _children(pid: int) -> set[int]:
    return family_of(pid) - {pid}


async def test_stop_answers_parked_polls_and_leaves_no_process(
    start_owner: StartOwner, data_dir: Path
) -> None:
    broker, queue = start_owner(), unique()
    pgdata = Layout.of(data_dir).pgdata
    postmaster = running_postmaster(pgdata)
    assert postmaster is not None
    processes = {broker.pid} | family_of(postmaster) | _children(broker.pid)
    async with wires([broker.url] * 20) as polls, Wire(broker.url) as wire:
        for number, poll in enumerate(polls):
            place = {"partition": f"p{number}"} if number % 2 else {}
            poll.send("GET", pop_path(queue, **place, wait=True, timeout=600_000))
        await wire.settle()
        broker.begin_stop()
        answers = await asyncio.gather(*(poll.receive() for poll in polls))
        assert [answer.status for answer in answers] == [204] * 20
        code = await asyncio.to_thread(broker.stop)
    assert code == 0, broker.log
    wait_gone(processes)
    assert running_postmaster(pgdata) is None


async def test_stop_finishes_the_push_that_is_in_flight(
    start_broker: StartBroker, database: asyncpg.Connection
) -> None:
    broker, queue = start_broker(), unique()
    async with Wire(broker.url) as wire, Wire(broker.url) as other:
        assert (await wire.push(queue, "first")).status == 201
        await other.settle()
        transaction = database.transaction()
        await transaction.start()
        await database.fetch("SELECT FROM queen.partition_lookup FOR UPDATE")
        item = {"queue": queue, "payload": "second"}
        wire.send("POST", "/api/v1/push", {"items": [item]})
        await other.settle()
        broker.begin_stop()
        await wait_until_async(
            lambda: _is_refused(broker.url), timeout_s=SOON_S, what="the broker to stop listening"
        )
        await transaction.rollback()
        answer = await wire.receive()
        assert answer.status == 201, answer
        assert await asyncio.to_thread(broker.stop) == 0
    stored = await database.fetch("SELECT payload::text FROM queen.messages ORDER BY seq")
    assert [row["payload"] for row in stored] == ['"first"', '"second"']


async def _is_refused(url: str) -> bool:
    try:
        async with Wire(url):
            return False
    except OSError:
        return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_idle_broker_stops_with_code_0(start_broker: StartBroker, number: signal.Signals) -> None:
    broker = start_broker()
    broker.begin_stop(number)
    assert broker.stop() == 0
    assert broker.log == []


def test_second_broker_on_a_live_data_directory_is_refused(
    start_owner: StartOwner, data_dir: Path
) -> None:
    first = start_owner()
    second = _run("serve", "--port", "0", "--data-dir", str(data_dir))
    assert second.returncode == 1
    (line,) = second.stderr.splitlines()
    assert line.startswith("queen: ") and str(data_dir) in line and str(first.pid) in line
    assert "Traceback" not in second.stderr
    assert is_running(first.pid)


async def test_both_workers_serve_one_port_and_a_killed_one_is_replaced(
    start_broker: StartBroker,
) -> None:
    broker, queue = start_broker(QUEEN_WORKERS="2"), unique()
    workers = _children(broker.pid)
    assert len(workers) == 2
    for number, frozen in enumerate(sorted(workers)):
        # With the other one frozen, whoever answers is this one.
        os.kill(frozen, signal.SIGSTOP)
        try:
            async with Wire(broker.url) as wire:
                assert (await wire.push(queue, number)).status == 201
        finally:
            os.kill(frozen, signal.SIGCONT)
    victim = min(workers)
    os.kill(victim, signal.SIGKILL)

    def replaced() -> bool:
        now = _children(broker.pid)
        return len(now) == 2 and victim not in now and all(map(is_running, now))

    await wait_until_async(replaced, timeout_s=SOON_S, what="a new worker")
    newcomer = (_children(broker.pid) - workers).pop()
    os.kill(max(workers), signal.SIGSTOP)
    try:
        async with Wire(broker.url) as wire:
            messages = await wire.pop(queue, batch=10)
            assert [message["data"] for message in messages] == [0, 1]
    finally:
        os.kill(max(workers), signal.SIGCONT)
    assert broker.stop() == 0
    wait_gone(workers | {newcomer})


def test_killed_parent_leaves_neither_workers_nor_postgres(
    start_owner: StartOwner, data_dir: Path
) -> None:
    broker = start_owner("--workers", "2")
    pgdata = Layout.of(data_dir).pgdata
    postmaster = running_postmaster(pgdata)
    assert postmaster is not None
    processes = family_of(postmaster) | _children(broker.pid)
    assert len(processes) > 3
    # Its workers hold the other end of its pipes a moment longer, so do not wait for those.
    broker.process.kill()
    wait_gone(processes | {broker.pid})
    assert running_postmaster(pgdata) is None


async def test_push_to_one_worker_wakes_a_poll_on_the_other(start_broker: StartBroker) -> None:
    """Wherever the connections land: with many polls, both workers hold some."""
    broker, queue = start_broker(QUEEN_WORKERS="2"), unique()
    async with wires([broker.url] * 16) as polls, Wire(broker.url) as wire:
        for number, poll in enumerate(polls):
            query = {"consumerGroup": f"g{number}", "wait": True, "timeout": 60_000}
            poll.send("GET", pop_path(queue, **query))
        await wire.settle()
        assert (await wire.push(queue, 1)).status == 201
        answers = await asyncio.gather(*(poll.receive() for poll in polls))
    assert [answer.status for answer in answers] == [200] * 16


async def test_second_broker_joins_by_url_and_is_woken_by_the_first(
    start_owner: StartOwner, data_dir: Path
) -> None:
    first, queue = start_owner(), unique()
    said = await asyncio.to_thread(_run, "db", "url", "--data-dir", str(data_dir))
    assert said.returncode == 0, said.stderr
    # Without its poll timer, only a notification can wake this one.
    with running_broker(database_url=said.stdout.strip(), **PATIENT) as second:
        async with Wire(first.url) as one, Wire(second.url) as other, Wire(second.url) as poll:
            assert (await one.push(queue, "warm")).status == 201
            (message,) = await other.pop(queue)
            await other.ack([message])
            poll.send("GET", pop_path(queue, wait=True, timeout=50_000))
            await other.settle()
            assert (await one.push(queue, "over http")).status == 201
            answer = await poll.receive()
            assert [message["data"] for message in answer.body["messages"]] == ["over http"]
            await other.ack(answer.body["messages"])
            await _push_by_sql_wakes(said.stdout.strip(), queue, poll, other)


async def _push_by_sql_wakes(url: str, queue: str, poll: Wire, other: Wire) -> None:
    poll.send("GET", pop_path(queue, wait=True, timeout=50_000))
    await other.settle()
    connection = await asyncpg.connect(url)
    try:
        await connection.fetchval("SELECT queen.push($1, $2)", queue, '"by sql"')
    finally:
        await connection.close()
    answer = await poll.receive()
    assert [message["data"] for message in answer.body["messages"]] == ["by sql"]


@pytest.mark.parametrize(
    ("arguments", "environ", "named"),
    [
        pytest.param(["--port", "abc"], {}, ["--port", "abc"], id="flag"),
        pytest.param(["--workers", "0"], {}, ["--workers", "0"], id="bound"),
        pytest.param([], {"QUEEN_PUSH_WAIT_MS": "soon"}, ["QUEEN_PUSH_WAIT_MS", "soon"],
                     id="environment"),
        pytest.param(["--config", "missing.toml"], {}, ["missing.toml"], id="file"),
        pytest.param(["--log-level", "loud"], {}, ["--log-level", "loud"], id="word"),
        pytest.param(["--database-url", "mysql://127.0.0.1:1/none"], {}, ["mysql:", "postgresql:"],
                     id="another database"),
        pytest.param(["--host", "203.0.113.7"], {}, ["203.0.113.7"], id="foreign address"),
    ],
)  # fmt: skip
def test_bad_setting_stops_the_start_with_a_sentence_that_names_it(
    arguments: list[str], environ: dict[str, str], named: list[str], tmp_path: Path
) -> None:
    home = ["--data-dir", str(tmp_path / "data")]
    ended = _run("serve", *home, *arguments, **{"QUEEN_PORT": "0", **environ})
    # 2 for a value that cannot be used, 1 for what only the machine can tell.
    assert ended.returncode in (1, 2)
    (line,) = ended.stderr.splitlines()
    assert line.startswith("queen: ")
    for word in named:
        assert word in line
    assert ended.stdout == ""
    assert not (tmp_path / "data").exists()


def test_unknown_key_in_the_config_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "queen.toml").write_text("prot = 6632\n")
    ended = _run("serve", "--config", str(tmp_path / "queen.toml"))
    assert ended.returncode == 2
    assert "prot" in ended.stderr and "Traceback" not in ended.stderr


def test_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = _run("serve", "--port", str(port), "--data-dir", str(tmp_path / "data"))
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert str(port) in line and "--port" in line
    assert not (tmp_path / "data").exists()


def test_url_of_a_data_directory_without_a_server_is_refused(tmp_path: Path) -> None:
    ended = _run("db", "url", "--data-dir", str(tmp_path / "nothing"))
    assert ended.returncode == 3
    (line,) = ended.stderr.splitlines()
    assert line.startswith("queen: ") and "nothing" in line


def test_unknown_variable_is_reported_with_the_nearest_name(database_url: str) -> None:
    with running_broker(database_url=database_url, QUEEN_DB_POOLSIZE="5", QUEEN_URL="x") as broker:
        broker.stop()
    (line,) = [line for line in broker.log if "unknown" in line]
    assert "QUEEN_DB_POOLSIZE is unknown and has no effect" in line
    assert "did you mean QUEEN_DB_POOL_SIZE?" in line
