"""Payloads on the command line: printed as they were pushed, whatever Python makes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg
import pytest

from tests.support.broker import unique
from tests.support.command_line import Cli

PUSHED = {
    "beyond-double": '{"e":1e400}',
    "5000-digits": '{"e":' + "7" * 5000 + "}",
    "spelling": '{"price":19.90,"b":1E5,"b":2}',
    "text": '"a\\u0000\\u001b[31mb"',
    "data-inside": '{"data":{"data":1e999},"payload":[]}',
}
#: What only gets in by SQL.
INSERTED = {"lone-surrogate": '"\\ud800"', "3000-levels": "[" * 3000 + "]" * 3000}
PAYLOADS = PUSHED | INSERTED

Insert = Callable[[str, str], None]


@pytest.fixture
def insert(cli: Cli, shared_database_url: str) -> Insert:
    """Push a payload by SQL, which takes any."""

    async def run(queue: str, payload: str) -> None:
        session = await asyncpg.connect(shared_database_url)
        try:
            await session.execute(
                "SELECT queen.push($1, $2::json, transaction_id => 't')", queue, payload
            )
        finally:
            await session.close()

    return lambda queue, payload: asyncio.run(run(queue, payload))


@pytest.mark.parametrize("payload", PUSHED.values(), ids=PUSHED)
def test_any_json_is_pushed_from_an_argument_or_a_line(cli: Cli, payload: str) -> None:
    queue = unique()
    cli.ok("push", queue, payload)
    cli.ok("push", queue, stdin=payload + "\n")
    lines = cli.ok("pop", queue, "-n", "2", "-o", "ndjson").splitlines()
    assert len(lines) == 2 and all(f'"data":{payload},' in line for line in lines)


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_a_payload_is_printed_as_it_was_pushed_everywhere(
    cli: Cli, insert: Insert, payload: str
) -> None:
    queue = unique()
    insert(queue, payload)
    for words in (["tail", queue], ["tail", queue, "--since", "1h ago"]):
        assert f'"data":{payload}' in cli.ok(*words, "-o", "ndjson")
        assert cli.ok(*words, "-o", "json").startswith("[")
        assert cli.ok(*words).count("\n") == 1
    (popped,) = cli.ok("pop", queue, "-o", "ndjson").splitlines()
    assert f'"data":{payload},' in popped
    assert cli.ok("ack", "--status", "dlq", stdin=popped) == "dead-lettered 1 message\n"
    assert f'"data":{payload},' in cli.ok("dlq", "show", queue, "t", "-o", "ndjson")
    for how in ("table", "json", "ndjson"):
        assert cli("dlq", "list", queue, "-o", how).code == 0
    partition_id = popped.split('"partitionId":"')[1].split('"')[0]
    found = cli.ok("messages", "show", partition_id, "t", "-o", "ndjson")
    assert f'"payload":{payload},' in found
    assert cli("messages", "show", partition_id, "t").code == 0
    assert cli("messages", "list", queue, "-o", "json").code == 0


def test_a_payload_cannot_steer_the_terminal(cli: Cli) -> None:
    queue = unique()
    cli.ok("push", queue, '"\\u001b[2Jgone"')
    for words in (["tail", queue], ["pop", queue]):
        out = cli.ok(*words)
        assert "\x1b" not in out and "\\u001b[2Jgone" in out
