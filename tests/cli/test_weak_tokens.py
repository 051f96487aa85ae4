"""Everyday commands with tokens that are not an administrator's."""

from __future__ import annotations

import pytest

from tests.support.broker import BrokerProcess, unique
from tests.support.command_line import Cli, Ended, on_terminal
from tests.support.tokens import signed


class Guarded:
    """Commands to a broker that wants a token, in a role."""

    def __init__(self, cli: Cli, broker: BrokerProcess) -> None:
        self._cli = cli
        self.url = broker.url

    def __call__(self, token: str, *arguments: str) -> Ended:
        return self._cli(*arguments, "--url", self.url, "--token", token)


def token(role: str, **claims: object) -> str:
    return signed(role=role, iss=None, aud=None, **claims)


@pytest.fixture
def queen(cli: Cli, guarded: BrokerProcess) -> Guarded:
    return Guarded(cli, guarded)


@pytest.fixture
def queue(queen: Guarded) -> str:
    name = unique("weak")
    assert queen(token("read-write"), "push", name, "1", "2").code == 0
    return name


@pytest.fixture
def limited(queen: Guarded, queue: str) -> str:
    """A token that is limited to queues."""
    made = queen(
        token("admin"), "tokens", "create", unique(), "--role", "read-write",
        "--queue", "weak*", "-o", "json",
    )  # fmt: skip
    return str(made.value["token"])


def _groups(queen: Guarded, queue: str) -> list[object]:
    found = queen(token("admin"), "groups", "list", "--queue", queue, "-o", "json").value
    assert isinstance(found, list)
    return found


def test_an_empty_queue_is_no_refused_token(queen: Guarded, queue: str, limited: str) -> None:
    for worker in (token("read-write"), limited):
        assert queen(token("admin"), "queues", "clear", queue, "--yes").code == 0
        ended = queen(worker, "pop", queue)
        assert (ended.code, ended.out) == (3, "") and "has nothing to pop now" in ended.err


def test_paused_pops_are_told_to_every_token(queen: Guarded) -> None:
    worker, empty = token("read-write"), unique("weak")
    assert queen(worker, "queues", "create", empty).code == 0
    assert queen(token("admin"), "maintenance", "on", "--pops").code == 0
    try:
        ended = queen(worker, "pop", empty)
        assert ended.code == 4 and "pops are paused" in ended.err
        for reader in (worker, token("admin")):
            shown = queen(reader, "status", "-o", "json").value["maintenance"]
            assert (shown["popMaintenanceMode"], shown["maintenanceMode"]) == (True, False)
    finally:
        assert queen(token("admin"), "maintenance", "off", "--pops").code == 0


def test_status_shows_what_the_token_may_read(queen: Guarded, queue: str, limited: str) -> None:
    shown = queen(token("read-only"), "status", "-o", "json")
    assert (shown.code, shown.err) == (0, "") and shown.value["overview"]["queues"] >= 1
    assert shown.value["maintenance"] == {
        "maintenanceMode": False, "popMaintenanceMode": False, "bufferedMessages": 0,
    }  # fmt: skip
    narrow = queen(limited, "status")
    assert narrow.code == 0 and "healthy" in narrow.out and "may not read" in narrow.err
    assert queen("nonsense", "status").code == 5


def test_top_shows_what_the_token_may_read(queen: Guarded, queue: str, limited: str) -> None:
    for reader in (token("read-only"), limited):
        ended = queen(reader, "top", "--once", "--interval", "0.2")
        assert (ended.code, ended.err) == (0, "") and queue in ended.out
    assert queen("nonsense", "top", "--once").code == 5


@pytest.mark.parametrize("role", ["read-only", "read-write", "admin"])
def test_tail_follows_with_any_token_and_leaves_no_group(
    queen: Guarded, queue: str, role: str
) -> None:
    given = {"QUEEN_URL": queen.url, "QUEEN_TOKEN": token(role)}
    with on_terminal("tail", queue, "-f", "-n", "1", **given) as tail:
        tail.wait_for("Default  2")
        assert queen(token("read-write"), "push", queue, '"after"', '"last"').code == 0
        tail.wait_for("Default  last")
        tail.type("\x03")
        assert tail.wait() == 130
    assert [line.split()[-1] for line in tail.shown.splitlines() if "Default" in line] == [
        "2", "after", "last",
    ]  # fmt: skip
    times = {len(line.split()[0]) for line in tail.shown.splitlines() if "Default" in line}
    assert times == {len("2030-01-01T12:00:00.000Z")}
    assert "is left" not in tail.shown and _groups(queen, queue) == []


@pytest.mark.parametrize("role", ["read-only", "read-write", "admin"])
def test_tail_since_a_time_reads_with_any_token(queen: Guarded, queue: str, role: str) -> None:
    ended = queen(token(role), "tail", queue, "--since", "1h ago", "-o", "json")
    assert [one["data"] for one in ended.value] == [1, 2]
    assert ended.err == "" and _groups(queen, queue) == []


def test_tail_of_a_queue_out_of_reach_leaves_nothing_to_remove(
    queen: Guarded, limited: str
) -> None:
    ended = queen(limited, "tail", "theirs", "-f")
    assert ended.code == 5 and "is left" not in ended.err


def test_bench_starts_only_if_it_may_delete_its_queue(queen: Guarded) -> None:
    ended = queen(token("read-write"), "bench", "push", "--seconds", "0.2")
    assert ended.code == 5 and "nothing was created" in ended.err and "admin" in ended.err
    listed = queen(token("admin"), "queues", "list", "--search", "queen-bench", "-o", "json")
    assert listed.value == []
    assert queen(token("admin"), "bench", "push", "--seconds", "0.2").code == 0


def test_only_a_missing_token_is_asked_for(queen: Guarded, cli: Cli, queue: str) -> None:
    refused = queen(token("read-only"), "push", queue, "1")
    assert refused.code == 5 and "read-only" in refused.err and "--token" not in refused.err
    missing = cli("queues", "list", "--url", queen.url)
    assert missing.code == 5 and "QUEEN_TOKEN" in missing.err
    assert ".;" not in refused.err + missing.err
