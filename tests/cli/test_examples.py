"""Every command has an example in its help, and every example works."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest
import typer

import queenmq
from queenmq import SyncQueen
from queenmq.cli import exits, main
from queenmq.cli.contexts import Contexts, Server, save
from queenmq.cli.pipeline.frame import Common
from queenmq.storage.embedded import read_url
from tests.isolation.sessions import ensure
from tests.support.broker import SOON_S, BrokerProcess, running_broker
from tests.support.command_line import Cli
from tests.support.folders import make_folder
from tests.support.operations import enqueue
from tests.tidy.repo import ROOT

PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")

#: The ids that stand in the examples.
OPERATION_ID = "01a1e27d-ffeb-7ea9-b445-f3dcf83be995"
LEASE_ID = "019a2b3c-0000-7000-8000-000000000001"
PARTITION_ID = "6ccda5df-06f8-4941-ad87-08c067dee57b"
TOKEN_ID = "0d8f6c52-1c2b-4b7e-9a55-3f6d1d0f7e11"


class Example(NamedTuple):
    """A line of help, and the command it belongs to."""

    command: str
    line: str


def commands(group: Any = None, path: str = "queen") -> Iterator[tuple[str, Any]]:
    """Every command that does something."""
    group = group or typer.main.get_command(main.make_app())
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def examples() -> list[Example]:
    return [
        Example(path, line)
        for path, command in commands()
        for line in re.findall(r"^Example: (.+)$", inspect.cleandoc(command.help or ""), re.M)
    ]


class Home(NamedTuple):
    """A directory with a broker's data, and the broker."""

    path: Path
    broker: BrokerProcess
    #: Failed ones, each for one use.
    operations: list[str]


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    path = make_folder()
    try:
        with running_broker(data_dir=path / "queen-data") as broker:
            url = read_url(path / "queen-data")
            yield Home(path, broker, asyncio.run(_fail_operations(url)))
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def _fail_operations(url: str) -> list[str]:
    session = await asyncpg.connect(url)
    try:
        async with session.transaction():
            places = await ensure(session, "failing", "a", "b", "c")
            ids = [(await enqueue(session, place, "bad"))[0] for place in places]
            await session.execute(
                "UPDATE queen.operation_queue SET status = 'failed', processed_at = now(),"
                " error_message = 'no' WHERE id = ANY($1)",
                ids,
            )
    finally:
        await session.close()
    return [str(one) for one in ids]


def _prepare(queen: SyncQueen) -> tuple[str, str]:
    """Everything that examples speak of, as new; the ids of a partition and of a lease."""
    for name in ("orders", "old-orders", "invoices"):
        queen.delete_queue(name)
    queen.admin.resume_consumer_group("billing")
    names = [f"order-{number}" for number in (8, 7, 9, 10)]
    items = [{"data": {"total": 5}, "transactionId": name} for name in names]
    results = queen.push("orders", items, partition="customer-42")
    queen.push("old-orders", [1])
    queen.ack(queen.pop("orders", group="billing"), "dlq", error="no address")
    (message,) = queen.pop("orders", group="billing")
    queen.trace(message, {"data": {"step": 1}, "traceName": "checkout"})
    queen.ack(message)
    (leased,) = queen.pop("old-orders", group="old-group")
    return str(results[0]["partition_id"]), leased.lease_id


@pytest.fixture
def place(home: Home, own_config: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """The home as examples expect it."""
    with SyncQueen(home.broker.url) as queen:
        partition_id, lease_id = _prepare(queen)
        save(own_config, Contexts("local", {"local": Server(home.broker.url)}))
        (home.path / "queues.toml").write_text("[queues.orders]\nlease_time = 60\n")
        push = {"type": "push", "items": [{"queue": "orders", "payload": 1}]}
        (home.path / "transaction.json").write_text(json.dumps({"operations": [push]}))
        (home.path / "old.json").write_text('{"results": []}')
        # In another directory a relative path to our source leads elsewhere.
        monkeypatch.setenv("PYTHONPATH", str(Path(queenmq.__file__).parents[1]))
        monkeypatch.chdir(home.path)
        monkeypatch.setenv("EXAMPLE_PARTITION_ID", partition_id)
        monkeypatch.setenv("EXAMPLE_LEASE_ID", lease_id)
        yield home
        queen.admin.set_pop_maintenance_mode(False)


def test_every_command_has_an_example() -> None:
    shown = {example.command for example in examples() if example.command in example.line}
    assert sorted({path for path, _ in commands()} - shown) == []


def test_every_command_is_on_the_page_with_its_options() -> None:
    rows = re.findall(r"^\| `(queen [^`]+)` \|.*\|(.*)\|$", PAGE, re.M)
    written = {
        re.sub(r" [\[A-Z].*", "", command): set(re.findall(r"`(--[\w-]+)`", options))
        for command, options in rows
    }
    actual = {
        path: {max(one.opts, key=len) for one in command.params if one.param_type_name == "option"}
        for path, command in commands()
    }
    shared = {"--help", "--output"}
    servers = {"--url", "--token", "--token-file", "--context"}
    servers |= {"--ca-file", "--cert-file", "--key-file"}
    jobs = {"--" + field.name.replace("_", "-") for field in dataclasses.fields(Common)}
    assert written == {
        path: flags
        - shared
        - (servers if "--context" in flags else set())
        - (jobs if "queen pipeline" in path else set())
        for path, flags in actual.items()
    }


def test_every_exit_code_is_on_the_page() -> None:
    written = {int(code) for code in re.findall(r"^\| (\d+) \| [A-Z]", PAGE, re.M)}
    assert written == {value for name, value in vars(exits).items() if name.isupper()}


#: Those of jobs run in tests/spark, where there is a session. A move needs a second server, as in
#: tests/acceptance/test_database_move.py.
HERE = [
    example
    for example in examples()
    if "queen pipeline" not in example.line and example.command != "queen db move"
]


@pytest.mark.parametrize("example", HERE, ids=lambda example: example.line)
def test_the_example_works(
    example: Example,
    place: Home,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = example.line.replace(PARTITION_ID, os.environ["EXAMPLE_PARTITION_ID"])
    line = line.replace(LEASE_ID, os.environ["EXAMPLE_LEASE_ID"])
    if OPERATION_ID in line:
        line = line.replace(OPERATION_ID, place.operations.pop())
    if TOKEN_ID in line:
        with SyncQueen(place.broker.url) as queen:
            line = line.replace(TOKEN_ID, queen.admin.create_token("example")["id"])
    if example.command == "queen db reencrypt":
        monkeypatch.setenv("QUEEN_ENCRYPTION_KEY", "0f" * 32)
    if example.command == "queen serve":
        _serve(line, place.path)
    elif re.search(r"[|$>]", line):
        _run_in_shell(line, place)
    else:
        words = shlex.split(line)[1:]
        ended = Cli(monkeypatch, capsys, place.broker.url)(*words)
        assert (ended.code, ended.err) == (0, ""), ended


def _run_in_shell(line: str, place: Home) -> None:
    function = f'queen() {{ {shlex.quote(sys.executable)} -m queenmq "$@"; }}'
    done = subprocess.run(
        ["bash", "-c", f"set -e -o pipefail; {function}; {line}"],
        env={**os.environ, "QUEEN_URL": place.broker.url},
        capture_output=True,
        text=True,
        timeout=SOON_S,
    )
    assert (done.returncode, done.stderr) == (0, ""), done


def _serve(line: str, path: Path) -> None:
    """The one that does not end by itself; on another port and another directory."""
    words = line.replace("6632", "0").replace("./queen-data", str(path / "second")).split()[1:]
    with subprocess.Popen(
        [sys.executable, "-m", "queenmq", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Queen is ready on ")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SOON_S)
    assert process.returncode == 0
