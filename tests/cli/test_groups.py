"""`queen groups`, `lag` and `replay`: where groups are, and how they are moved."""

from __future__ import annotations

import pytest

from queenmq.cli.display.times import age, parse_duration, parse_time
from queenmq.errors import QueenError
from tests.support.broker import unique
from tests.support.command_line import Cli

NOON_MS = 1_893_499_200_000  # 2030-01-01T12:00:00Z


@pytest.fixture
def place(cli: Cli) -> tuple[str, str]:
    """A queue with three messages, two of which a group has read."""
    queue, group = unique(), unique("group")
    cli.ok("push", queue, "1", "2", "3")
    cli("pop", queue, "-g", group, "-n", "2", "--ack")
    return queue, group


def test_groups_are_listed_and_shown_with_their_lag(cli: Cli, place: tuple[str, str]) -> None:
    queue, group = place
    (row,) = cli("groups", "list", "--queue", queue, "-o", "json").value
    assert (row["name"], row["totalLag"]) == (group, 1)
    (part,) = cli("groups", "show", group, "-o", "ndjson").lines
    assert (part["queue"], part["partition"], part["offsetLag"]) == (queue, "Default", 1)
    ended = cli("groups", "show", "no-such-group")
    assert ended.code == 3 and "'no-such-group'" in ended.err


def test_replay_gives_messages_again_from_a_time_on(cli: Cli, place: tuple[str, str]) -> None:
    queue, group = place
    said = cli.ok("replay", queue, "--group", group, "--to", "15m ago")
    assert f"moved group {group} to " in said and f"in 1 partition of {queue}" in said
    again = cli("pop", queue, "-g", group, "-n", "9", "--ack", "-o", "ndjson").lines
    assert [one["data"] for one in again] == [1, 2, 3]
    cli.ok("replay", queue, "--group", group, "--to", again[1]["createdAt"])
    assert cli("replay", queue, "--group", group, "--to", "beginning").code == 0
    assert len(cli("pop", queue, "-g", group, "-n", "9", "-o", "ndjson").lines) == 3


def test_skipping_messages_is_asked_for(cli: Cli, place: tuple[str, str]) -> None:
    queue, group = place
    words = ["groups", "seek", group, queue, "--to", "end"]
    ended = cli(*words)
    assert ended.code == 2 and "pass --yes" in ended.err
    cli.ok(*words, "--yes")
    assert cli("pop", queue, "-g", group).code == 3


def test_a_group_is_forgotten_once(cli: Cli, place: tuple[str, str]) -> None:
    _, group = place
    assert cli("groups", "delete", group).code == 2
    said = cli.ok("groups", "delete", group, "--yes")
    assert said == f"deleted group {group} in 1 partition of all queues\n"
    again = cli("groups", "delete", group, "--yes")
    assert again.code == 3 and f"group '{group}' has no cursor on any queue" in again.err


def test_lag_is_an_exit_code_for_alerts(cli: Cli, place: tuple[str, str]) -> None:
    queue, group = place
    assert cli("lag", "--queue", queue).code == 0
    ended = cli("lag", "--min-seconds", "0", "--queue", queue, "-o", "json")
    assert ended.code == 6
    (row,) = ended.value
    assert (row["consumer_group"], row["offset_lag"]) == (group, 1)
    assert cli("lag", "--min-seconds", "3600", "--queue", queue).code == 0
    assert cli("lag", "--min-seconds", "0", "--queue", queue, "--group", "other").code == 3


@pytest.mark.parametrize("to", ["yesterday", "15 ago", "-5m ago", "", "2030-13-01"])
def test_a_time_that_is_none_is_named(cli: Cli, place: tuple[str, str], to: str) -> None:
    queue, group = place
    ended = cli("replay", queue, "--group", group, "--to", to)
    assert ended.code == 2 and ended.err.count("\n") == 1


def test_a_queue_that_is_not_there_cannot_be_replayed(cli: Cli) -> None:
    ended = cli("replay", "no-such-queue", "--group", "g", "--to", "1h ago")
    assert ended.code == 3 and "queue 'no-such-queue' does not exist" in ended.err


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("now", "2030-01-01T12:00:00.000000Z"),
        ("15m ago", "2030-01-01T11:45:00.000000Z"),
        ("15m", "2030-01-01T11:45:00.000000Z"),
        ("1h30m", "2030-01-01T10:30:00.000000Z"),
        ("1h30m ago", "2030-01-01T10:30:00.000000Z"),
        ("2 days ago", "2029-12-30T12:00:00.000000Z"),
        ("2030-01-01", "2030-01-01T00:00:00.000000Z"),
        ("2030-01-01T12:00:00+02:00", "2030-01-01T10:00:00.000000Z"),
        ("beginning", "1970-01-01T00:00:00Z"),
    ],
)
def test_times_are_relative_or_absolute(text: str, time: str) -> None:
    assert parse_time(text, now_ms=NOON_MS) == time


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30), ("500ms", 0.5), ("1h30m", 5400), ("2 weeks", 1_209_600)]
)
def test_durations_have_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "5 parsecs", "99999999d", "1h foo"])
def test_durations_without_sense_are_refused(text: str) -> None:
    with pytest.raises(QueenError, match="is not a duration"):
        parse_duration(text)


def test_ages_are_short() -> None:
    assert [age(seconds) for seconds in (None, 0, 90, 600, 7200, 200_000)] == [
        "", "0s", "90s", "10m", "2h", "2d",
    ]  # fmt: skip


def test_lag_counts_partitions_that_the_group_has_not_visited(
    cli: Cli, place: tuple[str, str]
) -> None:
    queue, group = place
    cli("pop", queue, "-g", group, "--ack")
    cli.ok("push", queue, "4", "5", "6", "7", "--partition", "not visited")
    (row,) = cli("groups", "list", "--queue", queue, "-o", "json").value
    assert (row["totalLag"], row["partitionsWithLag"]) == (4, 1)
    ended = cli("lag", "--min-seconds", "0", "--queue", queue, "-o", "json")
    assert ended.code == 6
    (late,) = ended.value
    assert (late["partition_name"], late["offset_lag"]) == ("not visited", 4)
    parts = cli("groups", "show", group, "-o", "ndjson").lines
    assert {one["partition"]: one["offsetLag"] for one in parts} == {"Default": 0, "not visited": 4}
    why = cli("why", queue, "--group", group, "-o", "json").value
    assert why["backlog"] == 4


@pytest.mark.parametrize(
    "words",
    [
        ["lag", "--group", "nosuch", "--min-seconds", "1"],
        ["groups", "list", "--queue", "nosuch"],
        ["analytics", "nosuch"],
        ["metrics", "nosuch"],
    ],
    ids=lambda words: words[0],
)
def test_what_does_not_exist_is_no_empty_table(cli: Cli, words: list[str]) -> None:
    ended = cli(*words)
    assert (ended.code, ended.out) == (3, "") and "nosuch" in ended.err


def test_the_pause_of_an_unknown_group_is_told(cli: Cli) -> None:
    group = unique("group")
    assert "no queue knows this group yet" in cli.ok("groups", "pause", group)
    cli.ok("groups", "resume", group)
    queue = unique()
    cli.ok("push", queue, "1")
    cli.ok("pop", queue, "-g", group)
    assert "no queue knows" not in cli.ok("groups", "pause", group)
    cli.ok("groups", "resume", group)
