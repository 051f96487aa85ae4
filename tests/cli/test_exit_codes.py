"""Exit codes and hints of command lines that cannot be carried out."""

from __future__ import annotations

import pytest

from queenmq import SyncQueen
from tests.support.broker import unique
from tests.support.command_line import Cli


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["serve", "--port", "0", "--database-url", "mysql://x"], "starts with mysql:"),
        (["serve", "--port", "0", "--tls-cert", "/nowhere"], "set tls_key as well"),
        (["db", "move", "--to", "nonsense"], "--to cannot be used"),
        (["db", "reencrypt"], "QUEEN_ENCRYPTION_KEY_FILE"),
        (["pop", "any", "--batch", "99999999999999999999"], "99999999999999999999"),
        (["push", "", "1"], "queue"),
        (["messages", "show", "abc", "def"], "not the id of a partition; queen messages list"),
        (["ops", "show", "5"], "not the id of an operation; queen ops list"),
        (["ops", "retry", "5"], "not the id of an operation; queen ops list"),
        (["tokens", "revoke", "5", "--yes"], "not the id of a token; queen tokens list"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_value_that_cannot_be_used_is_exit_code_2(
    cli: Cli, words: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("QUEEN_ENCRYPTION_KEY", "QUEEN_ENCRYPTION_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    ended = cli(*words)
    assert (ended.code, ended.out) == (2, "") and says in ended.err


def test_a_broker_without_a_key_is_not_worth_another_try(cli: Cli) -> None:
    ended = cli("queues", "create", unique(), "encryptionEnabled=true")
    assert ended.code == 1 and "QUEEN_ENCRYPTION_KEY" in ended.err


def test_an_empty_pop_names_the_whole_question(cli: Cli) -> None:
    queue = unique()
    cli.ok("push", queue, "1", "-p", "a b")
    cli.ok("pop", queue, "-p", "a b", "--group", "zz", "--ack")
    ended = cli("pop", queue, "-p", "a b", "--group", "zz")
    assert ended.code == 3 and f"; queen why {queue} 'a b' --group zz says why" in ended.err
    ended = cli("pop", queue, "-p", "nopart", "--group", "zz")
    assert ended.code == 3 and "has no partition 'nopart' yet" in ended.err


def test_why_names_commands(cli: Cli) -> None:
    queue = unique()
    cli.ok("push", queue, "1")
    with SyncQueen(cli.url) as queen:
        queen.ack(queen.pop(queue, group="con"), "dlq", error="no address")
    text = " ".join(cli.ok("why", queue, "--group", "con").split())
    assert f"see queen dlq list {queue} --group con" in text and "/api/" not in text
    assert f"queen dlq retry {queue} --group con" in text
