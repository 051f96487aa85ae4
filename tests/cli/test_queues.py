"""`queen queues`, `partitions` and `apply`: queues are set up, looked at, emptied and deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker import unique
from tests.support.command_line import Cli, on_terminal


def options(cli: Cli, queue: str) -> dict[str, object]:
    found: dict[str, object] = cli("queues", "show", queue, "-o", "json").value["options"]
    return found


def test_a_created_queue_has_its_options_and_the_defaults_of_others(cli: Cli) -> None:
    queue = unique()
    cli.ok("queues", "create", queue, "leaseTime=60", "on_poison=block", "--namespace", "shop")
    shown = cli("queues", "show", queue, "-o", "json").value
    assert shown["namespace"] == "shop"
    assert shown["options"]["leaseTime"] == 60
    assert (shown["options"]["onPoison"], shown["options"]["retryLimit"]) == ("block", 3)
    ended = cli("queues", "create", queue)
    assert ended.code == 2 and f"queue '{queue}' already exists" in ended.err


def test_configure_changes_what_it_names_and_nothing_else(cli: Cli) -> None:
    queue = unique()
    cli.ok("queues", "create", queue, "leaseTime=60", "retentionEnabled=true", "--task", "t")
    said = cli.ok("queues", "configure", queue, "retryLimit=7")
    assert said == f"queue {queue}: retryLimit 3 -> 7\n"
    shown = cli("queues", "show", queue, "-o", "json").value
    assert (shown["task"], shown["options"]["leaseTime"]) == ("t", 60)
    assert (shown["options"]["retentionEnabled"], shown["options"]["retryLimit"]) == (True, 7)


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ("leaseTme=60", "queues have no option 'leaseTme'; did you mean leaseTime?"),
        ("leaseTime=soon", "option leaseTime cannot be 'soon'"),
        ("leaseTime=-1", "option leaseTime cannot be '-1'"),
        ("onPoison=eat", "option onPoison cannot be 'eat'"),
        ("leaseTime", "'leaseTime' is not an option"),
    ],
)
def test_a_bad_option_is_named(cli: Cli, pair: str, says: str) -> None:
    ended = cli("queues", "create", unique(), pair)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err and ended.err.count("\n") == 1


def test_partitions_are_listed_with_their_counts(cli: Cli) -> None:
    queue = unique()
    cli.ok("push", queue, "1", "2", "-p", "a")
    cli.ok("push", queue, "3", "-p", "b")
    cli("pop", queue, "-p", "b", "--auto-ack")
    rows = cli("partitions", queue, "-o", "ndjson").lines
    assert {row["name"]: row["stats"]["pending"] for row in rows} == {"a": 2, "b": 0}
    pending = cli("partitions", queue, "--pending", "-o", "json").value
    assert [row["name"] for row in pending] == ["a"]
    ended = cli("partitions", queue, "--limit", "1")
    assert "1 of 2; see --limit" in ended.err


def test_a_partition_is_deleted(cli: Cli) -> None:
    queue = unique()
    cli.ok("push", queue, "1", "2", "-p", "a")
    cli.ok("push", queue, "3", "-p", "b")
    ended = cli("partitions", "delete", queue, "a")
    assert ended.code == 2 and "--yes" in ended.err
    ended = cli("partitions", "delete", "--yes", queue, "a")
    assert ended.code == 0 and f"partition a of queue {queue} is deleted" in ended.out + ended.err
    rows = cli("partitions", "list", queue, "-o", "json").value
    assert [row["name"] for row in rows] == ["b"]
    ended = cli("partitions", "delete", "--yes", queue, "a")
    assert ended.code == 3 and "does not exist" in ended.err


def test_queues_are_found_by_a_part_of_their_name(cli: Cli) -> None:
    queue = unique("needle")
    cli.ok("push", queue, "1")
    (row,) = cli("queues", "list", "--search", queue[2:], "-o", "json").value
    assert (row["name"], row["messages"]["pending"]) == (queue, 1)


def test_what_is_destroyed_is_asked_for(cli: Cli) -> None:
    queue = unique()
    cli.ok("push", queue, "1", "2")
    for words in (["queues", "delete", queue], ["queues", "clear", queue]):
        ended = cli(*words)
        assert ended.code == 2 and "Refused without confirmation; pass --yes." in ended.err
    assert cli("queues", "show", queue, "-o", "json").value["totals"]["total"] == 2
    assert "dropped 2 messages" in cli.ok("queues", "clear", "--yes", queue)
    assert cli.ok("queues", "delete", "--yes", queue) == f"queue {queue} is deleted\n"
    assert cli("queues", "delete", "--yes", queue).code == 3


def test_somebody_at_a_terminal_may_say_no(cli: Cli) -> None:
    queue = unique()
    cli.ok("push", queue, "1")
    with on_terminal("queues", "delete", queue, QUEEN_URL=cli.url) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("n\n")
        assert terminal.wait() == 1
        assert "queen: stopped; nothing was done" in terminal.shown
    assert cli("queues", "show", queue).code == 0


def test_apply_shows_a_difference_makes_it_so_and_is_then_content(cli: Cli, tmp_path: Path) -> None:
    old, new, file = unique("old"), unique("new"), tmp_path / "queues.toml"
    cli.ok("queues", "create", old, "leaseTime=60", "maxSize=9")
    file.write_text(
        f'[queues.{old}]\nlease_time = 60\n[queues."{new}"]\nnamespace = "shop"\nretryLimit = 5\n'
    )
    look = cli("apply", "-f", str(file), "--dry-run")
    assert look.code == 6
    assert look.out.splitlines() == [
        f"~ {old}",
        "    maxSize: 9 -> 0",
        f"+ {new}",
        "    namespace = shop",
        "    retryLimit = 5",
        "would change 2 queues",
    ]
    assert options(cli, old)["maxSize"] == 9
    ended = cli("apply", "-f", str(file))
    assert ended.code == 2 and "pass --yes" in ended.err
    assert cli("apply", "-f", str(file), "--yes", "-o", "json").value == [
        {"queue": old, "action": "configure", "changes": {"maxSize": {"before": 9, "after": 0}}},
        {
            "queue": new,
            "action": "create",
            "changes": {
                "namespace": {"before": None, "after": "shop"},
                "retryLimit": {"before": None, "after": 5},
            },
        },
    ]
    assert (options(cli, old)["maxSize"], options(cli, new)["retryLimit"]) == (0, 5)
    assert cli.ok("apply", "-f", str(file), "--dry-run") == "nothing to change\n"
    assert cli.ok("apply", "-f", str(file)) == "nothing to change\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[queues.a]\nlease = 1", "queue 'a': queues have no option 'lease'"),
        ("[queues.a]\nlease_time = '60'", "queue 'a': option lease_time cannot be '60'"),
        ("[queues.a]\nnamespace = 7", "queue 'a': namespace cannot be 7"),
        ("[queues]\na = 7", "queue 'a' must be a table of options, not 7"),
        ("[other]\n", "may only contain tables [queues.NAME]"),
        ("[queues.a", "is not valid TOML"),
    ],
)
def test_a_bad_file_is_refused_by_name_before_anything_is_done(
    cli: Cli, tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "queues.toml"
    file.write_text(text)
    ended = cli("apply", "-f", str(file), "--yes")
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err and str(file) in ended.err and ended.err.count("\n") == 1


def test_options_are_shown_as_files_have_them(cli: Cli, tmp_path: Path) -> None:
    queue, file = unique(), tmp_path / "queues.toml"
    cli.ok("queues", "create", queue, "deadLetterQueue=true")
    assert "deadLetterQueue true -> false" in cli.ok(
        "queues", "configure", queue, "deadLetterQueue=false"
    )
    file.write_text(f"[queues.'{queue}']\ndead_letter_queue = true\n")
    assert "deadLetterQueue: false -> true" in cli("apply", "-f", str(file), "--dry-run").out
