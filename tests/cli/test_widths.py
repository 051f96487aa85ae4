"""Output for people fits 80 columns, and ids can be copied from it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import typer

from queenmq import SyncQueen
from queenmq.cli import main
from queenmq.cli.display import tables
from queenmq.cli.display.columns import Column
from queenmq.cli.display.help import every_command
from queenmq.cli.display.tables import Line, fold_text, lay_out
from queenmq.cli.operate.top import share_lines
from tests.support.broker import BrokerProcess, unique
from tests.support.command_line import Cli, on_terminal

LONG = "a-partition-with-quite-a-long-name"


class Place(NamedTuple):
    queue: str
    partition_id: str
    transaction_id: str
    lease_id: str


@pytest.fixture(scope="module")
def place(broker: BrokerProcess) -> Iterator[Place]:
    """A queue with everything that commands show: UUIDs, long names, errors, leases, traces."""
    queue = unique("a-queue-with-quite-a-long-name")
    with SyncQueen(broker.url) as queen:
        queen.create_queue(queue, namespace="a-namespace", task="a-task", retry_limit=0)
        queen.push(queue, [{"text": "x" * 200}, {"n": 2}, {"n": 3}], partition=LONG)
        (first,) = queen.pop(queue, group="a-group-with-a-name")
        queen.trace(first, {"data": {"step": "y" * 100}, "traceName": queue})
        queen.nack(first, "a reason that is told at some length, more than a line has room for")
        (second,) = queen.pop(queue, group="a-group-with-a-name")
        yield Place(queue, second.partition_id, first.transaction_id, second.lease_id)


#: A use of every command that prints a table or a block; those of other groups print sentences.
SHOWN = [
    "metrics queen_uptime", "analytics QUEUE", "version", "namespaces", "tasks",
    "lease extend LEASE_ID", f"partitions show QUEUE {LONG}",
    "queues list", "queues show QUEUE", "partitions list QUEUE", "groups list", "lag", "ops aside",
    "groups show a-group-with-a-name", "messages list QUEUE", "tail QUEUE -n 0",
    "messages show PARTITION_ID TRANSACTION_ID", "trace show PARTITION_ID TRANSACTION_ID",
    "trace find QUEUE", "trace names", "dlq list QUEUE", "dlq show QUEUE TRANSACTION_ID",
    "why QUEUE --group a-group-with-a-name", "why QUEUE", "status", "ops list", "ops stats",
    "maintenance show", "top --once --interval 0.2", "context list", "context show",
    "pop QUEUE --group another-group --auto-ack",
    "bench push --seconds 0.2 --connections 1", "tokens list", "audit",
]  # fmt: skip


@pytest.mark.parametrize("line", SHOWN)
@pytest.mark.parametrize("columns", [80, 60])
def test_output_fits_the_columns_there_are(
    cli: Cli, place: Place, monkeypatch: pytest.MonkeyPatch, line: str, columns: int
) -> None:
    cli.ok("context", "set", "a-context", "--url", "http://127.0.0.1:6632")
    words = [
        word.replace("QUEUE", place.queue)
        .replace("PARTITION_ID", place.partition_id)
        .replace("TRANSACTION_ID", place.transaction_id)
        .replace("LEASE_ID", place.lease_id)
        for word in shlex.split(line)
    ]
    monkeypatch.setenv("COLUMNS", str(columns))
    ended = cli(*words)
    assert ended.code == 0, ended
    assert max((len(one) for one in ended.out.splitlines()), default=0) <= columns, ended.out


def test_ids_are_whole_however_narrow_it_is(
    cli: Cli, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = cli.ok("messages", "list", place.queue)
    assert place.partition_id in out and place.transaction_id in out
    assert place.transaction_id in cli.ok("dlq", "list", place.queue)


def test_a_pipe_gets_everything(cli: Cli, place: Place) -> None:
    head, *_ = cli.ok("dlq", "list", place.queue).splitlines()
    assert head.split() == [
        "QUEUE", "PARTITION", "GROUP", "TRANSACTION", "ID", "RETRIES", "FAILED", "ERROR",
    ]  # fmt: skip


def test_every_command_is_shown_or_prints_sentences() -> None:
    sentences = {
        "queen serve", "queen demo", "queen push", "queen ack", "queen apply", "queen replay",
        "queen queues create", "queen queues configure", "queen queues delete",
        "queen queues clear", "queen groups seek", "queen groups delete", "queen messages retry",
        "queen messages bury", "queen messages delete", "queen dlq retry", "queen dlq purge",
        "queen ops retry", "queen ops discard", "queen maintenance on", "queen maintenance off",
        "queen context set", "queen context use", "queen context delete", "queen db url",
        "queen db migrate", "queen db check", "queen db resync-lookup", "queen db finish-upgrade",
        "queen partitions delete", "queen partitions release", "queen partitions seek",
        "queen groups pause", "queen groups resume", "queen db reencrypt",
        "queen partitions clear", "queen tx",
        "queen tokens create", "queen tokens revoke",
        "queen db create-token",
    }  # fmt: skip
    # With a database, in tests/cli/test_inspection.py; and an operation, which has to fail first.
    elsewhere = {"queen db vacuum-report", "queen db roles", "queen db move", "queen ops show"}
    every = {
        path
        for path, command in every_command(typer.main.get_command(main.make_app()))
        if not hasattr(command, "commands") and "pipeline" not in path
    }
    here = {path for path in every if any(f"queen {one} ".startswith(path + " ") for one in SHOWN)}
    assert every - here - sentences - elsewhere == set()


def test_what_does_not_fit_is_left_out_by_rank_and_then_becomes_blocks() -> None:
    columns = [Column("id", "ID"), Column("n", "N", rank=1), Column("t", "TEXT", is_text=True)]
    rows = [{"id": "x" * 10, "n": 1, "t": "word " * 10}]
    assert [str(line) for line in lay_out(rows, columns, width=None)] == [
        "ID          N  TEXT",
        "xxxxxxxxxx  1  " + ("word " * 10).strip(),
    ]
    assert str(lay_out(rows, columns, width=35)[1]) == "xxxxxxxxxx  1  word word word word…"
    assert str(lay_out(rows, columns, width=30)[1]) == "xxxxxxxxxx  word word word wo…"
    assert lay_out(rows, columns, width=20) == [
        Line("ID    ", "xxxxxxxxxx"),
        Line("N     ", "1"),
        *(
            Line("TEXT  " if not number else "      ", one)
            for number, one in enumerate(fold_text(("word " * 10).strip(), 16))
        ),
    ]


def test_wide_letters_take_two_columns() -> None:
    assert tables.cut("日本語", 5) == "日本…"
    assert fold_text("日本語", 4) == ["日本", "語"]


@pytest.mark.parametrize(
    ("room", "queues", "groups", "shared"),
    [(16, 20, 20, (8, 8)), (16, 3, 20, (3, 13)), (16, 20, 2, (14, 2)), (16, 1, 1, (1, 1))],
)
def test_queues_and_groups_share_the_screen(
    room: int, queues: int, groups: int, shared: tuple[int, int]
) -> None:
    assert share_lines(room, queues, groups) == shared


def test_top_shows_groups_on_a_small_screen_and_ends_by_q(cli: Cli, broker: BrokerProcess) -> None:
    with SyncQueen(broker.url) as queen:
        for number in range(25):
            queen.push(f"top-{number}", 1)
        queue = unique()
        queen.push(queue, [1, 2])
        queen.pop(queue, group="a-group")
    size = {"COLUMNS": "80", "LINES": "24"}
    with on_terminal("top", "--interval", "0.2", QUEEN_URL=cli.url, **size) as terminal:
        terminal.wait_for("GROUP ")
        terminal.wait_for("q quits")
        terminal.type("q")
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.shown
