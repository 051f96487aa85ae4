"""Nothing that a producer can choose steers the terminal of who looks at it."""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from queenmq import SyncQueen
from queenmq.cli.display.safe import printable
from tests.cli.test_widths import SHOWN
from tests.support.broker import BrokerProcess, unique
from tests.support.command_line import Cli

#: Sets a title, clears the screen, colours by C1, turns the direction of text, ends a line.
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\x7f"


class Trap(NamedTuple):
    queue: str
    group: str
    partition: str
    partition_id: str
    transaction_id: str


@pytest.fixture(scope="module")
def trap(broker: BrokerProcess) -> Iterator[Trap]:
    """A queue with escapes in everything that a producer or consumer chooses."""
    queue, group, partition = (unique(part) + EVIL for part in ("queue", "group", "partition"))
    with SyncQueen(broker.url) as queen:
        queen.create_queue(queue, namespace=f"n{EVIL}", task=f"t{EVIL}", retry_limit=0)
        payloads = [EVIL, {EVIL: EVIL}, [EVIL]]
        queen.push(queue, payloads, partition=partition)
        (first,) = queen.pop(queue, group=group)
        queen.trace(first, {"data": {EVIL: EVIL}, "traceName": queue, "eventType": EVIL})
        queen.nack(first, EVIL, group=group)
        (second,) = queen.pop(queue, group=group)
        yield Trap(queue, group, partition, second.partition_id, first.transaction_id)


def _steering(text: str) -> set[str]:
    return {
        one
        for one in text
        if one != "\n" and unicodedata.category(one) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    }


def _words(line: str, trap: Trap) -> list[str]:
    return [
        word.replace("QUEUE", trap.queue)
        .replace("PARTITION_ID", trap.partition_id)
        .replace("TRANSACTION_ID", trap.transaction_id)
        .replace("a-group-with-a-name", trap.group)
        for word in shlex.split(line)
    ]


#: Sentences, and commands that change something, at the end because they do.
CHANGES = [
    "push QUEUE 1", "queues configure QUEUE --lease-time 9", "why QUEUE no-such-partition",
    "groups seek a-group-with-a-name QUEUE --to-end", "dlq show QUEUE no-such-letter",
    "messages show PARTITION_ID no-such-message", "queues show no-QUEUE",
    "groups delete a-group-with-a-name --queue QUEUE --yes", "queues clear QUEUE --yes",
    "queues delete QUEUE --yes", "queues show QUEUE", "queues delete QUEUE",
    "context use QUEUE", "ops list --queue QUEUE", "nonsense-QUEUE",
]  # fmt: skip


def test_no_command_prints_what_steers_a_terminal(cli: Cli, trap: Trap) -> None:
    wrong = []
    for line in (*SHOWN, *CHANGES):
        if line.startswith("bench"):
            continue
        ended = cli(*_words(line, trap))
        found = _steering(ended.out + ended.err)
        if found:
            wrong.append(f"{line}: {found}")
        assert "Traceback" not in ended.err
    assert wrong == []


def test_json_stays_exact(cli: Cli, broker: BrokerProcess) -> None:
    queue = unique("exact") + EVIL
    with SyncQueen(broker.url) as queen:
        queen.push(queue, {"text": EVIL})
    (message,) = cli("pop", queue, "-o", "json", "--auto-ack").value
    assert message["data"] == {"text": EVIL}
    names = {one["name"] for one in cli("queues", "list", "-o", "json").value}
    assert queue in names


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain é 日本", "plain é 日本"), ("a\nb", "a\\u000ab"), ("\x1b[0m", "\\u001b[0m"),
     ("\U000e0001", "\\U000e0001")],
    ids=["plain", "line", "escape", "tag"],
)  # fmt: skip
def test_printable_escapes_only_what_it_must(text: str, shown: str) -> None:
    assert printable(text) == shown
