"""`queen pop` and `queen ack`: leases are held, settled by ids or through a pipe."""

from __future__ import annotations

import json

import pytest

from tests.support.broker import unique
from tests.support.command_line import Cli


@pytest.fixture
def queue(cli: Cli) -> str:
    name = unique()
    cli.ok("push", name, "1", "2", "3")
    return name


def test_a_pop_is_a_table_for_people(cli: Cli, queue: str) -> None:
    head, row = cli.ok("pop", queue).splitlines()
    assert head.split()[0] == "PARTITION" and head.endswith("DATA")
    assert row.startswith("Default  ") and row.endswith("  1")


def test_without_an_ack_messages_stay_leased(cli: Cli, queue: str) -> None:
    assert cli("pop", queue).code == 0
    ended = cli("pop", queue)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith(f"queen: queue '{queue}' has nothing to pop now; queen why ")


@pytest.mark.parametrize("flag", ["--ack", "--auto-ack"])
def test_acked_messages_do_not_come_again(cli: Cli, queue: str, flag: str) -> None:
    assert [one["data"] for one in cli("pop", queue, flag, "-n", "2", "-o", "json").value] == [1, 2]
    assert [one["data"] for one in cli("pop", queue, flag, "-n", "9", "-o", "json").value] == [3]


def test_what_pop_prints_is_what_ack_reads(cli: Cli, queue: str) -> None:
    popped = cli("pop", queue, "-g", "g", "-n", "2", "-o", "ndjson").out
    assert cli.ok("ack", stdin=popped) == "completed 2 messages\n"
    (rest,) = cli("pop", queue, "-g", "g", "-o", "ndjson").lines
    assert rest["data"] == 3


def test_a_message_is_failed_by_its_ids(cli: Cli, queue: str) -> None:
    (one,) = cli("pop", queue, "-o", "ndjson").lines
    said = cli.ok(
        "ack", one["transactionId"], "--partition-id", one["partitionId"], "--lease-id",
        one["leaseId"], "--status", "failed", "--error", "no address",
    )  # fmt: skip
    assert said == "failed 1 message\n"
    (again,) = cli("pop", queue, "-o", "ndjson").lines
    assert (again["data"], again["retryCount"]) == (1, 1)


def test_an_ack_that_is_refused_is_an_error(cli: Cli, queue: str) -> None:
    popped = cli("pop", queue, "-o", "ndjson").out
    wrong = json.dumps({**json.loads(popped), "leaseId": "6ccda5df-06f8-8941-9981-2c95f9abdd2a"})
    ended = cli("ack", stdin=wrong)
    assert ended.code == 1
    assert "1 of 1 acks were refused" in ended.err and "Invalid or expired lease" in ended.err


@pytest.mark.parametrize(
    ("words", "stdin", "code", "says"),
    [
        ([], "", 3, "no messages to ack"),
        ([], "{}\n", 2, "line 1 has no transactionId"),
        (["x"], "", 2, "--partition-id is missing"),
        (["--lease-id", "x"], "", 2, "need the TRANSACTION_ID"),
        (["x", "--status", "done"], "", 2, "'--status'"),
    ],
)
def test_an_ack_of_nothing_names_what_is_missing(
    cli: Cli, words: list[str], stdin: str, code: int, says: str
) -> None:
    ended = cli("ack", *words, stdin=stdin)
    assert ended.code == code and says in ended.err and ended.err.count("\n") == 1


def test_a_queue_that_does_not_exist_is_named(cli: Cli) -> None:
    queue = unique()
    for words in ("pop", "tail", "queues show", "partitions", "why", "lag --queue", "dlq list"):
        ended = cli(*words.split(), queue)
        assert (ended.code, ended.out) == (3, "")
        assert ended.err == f"queen: queue '{queue}' does not exist; check its name\n"
