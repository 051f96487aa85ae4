"""`queen tail`, `top` and `bench`: looking at a server without disturbing it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from queenmq import wire
from queenmq.cli.operate.top import Sample, view
from queenmq.version import VERSION
from tests.support.broker import unique
from tests.support.command_line import Cli, on_terminal


@pytest.fixture
def queue(cli: Cli) -> str:
    name = unique()
    cli.ok("push", name, *(str(number) for number in range(1, 6)))
    cli.ok("push", name, '"elsewhere"', "-p", "b")
    return name


def shown(out: str) -> list[str]:
    return [line.rsplit("  ", 1)[1] for line in out.splitlines()]


def test_tail_prints_the_last_messages_oldest_first(cli: Cli, queue: str) -> None:
    assert shown(cli.ok("tail", queue, "-n", "2", "-p", "Default")) == ["4", "5"]
    rows = cli("tail", queue, "-n", "1", "-p", "b", "-o", "ndjson").lines
    assert [(row["partition"], row["data"]) for row in rows] == [("b", "elsewhere")]


def test_tail_since_a_time_prints_everything_and_leaves_no_group(cli: Cli, queue: str) -> None:
    assert sorted(shown(cli.ok("tail", queue, "--since", "1h ago"))) == [
        "1", "2", "3", "4", "5", "elsewhere",
    ]  # fmt: skip
    assert cli("groups", "list", "--queue", queue, "-o", "json").value == []


def test_tail_takes_nothing_from_consumers(cli: Cli, queue: str) -> None:
    cli("pop", queue, "-g", "g", "-p", "Default", "--ack")
    cli.ok("tail", queue, "--since", "1h ago")
    cli.ok("tail", queue)
    rest = cli("pop", queue, "-g", "g", "-p", "Default", "-n", "9", "-o", "ndjson").lines
    assert [one["data"] for one in rest] == [2, 3, 4, 5]


def test_tail_as_a_group_reads_on_from_where_it_is(cli: Cli, queue: str) -> None:
    cli("pop", queue, "-g", "g", "-p", "Default", "-n", "3", "--ack")
    assert shown(cli.ok("tail", queue, "-g", "g", "-p", "Default")) == ["4", "5"]
    assert cli.ok("tail", queue, "-g", "g", "-p", "Default") == ""
    ended = cli("tail", queue, "-g", "g", "--since", "1h ago")
    assert ended.code == 2


def test_tail_follows_across_the_moment_it_begins(cli: Cli, queue: str) -> None:
    with on_terminal("tail", queue, "-f", "-n", "1", "-p", "Default", QUEEN_URL=cli.url) as tail:
        tail.wait_for("Default  5")
        cli.ok("push", queue, '"after"')
        tail.wait_for("Default  after")
        tail.type("\x03")
        assert tail.wait() == 130
    assert tail.shown.count("Default") == 2


def test_top_prints_once_for_scripts(cli: Cli, queue: str) -> None:
    cli("pop", queue, "-g", "g", "-p", "Default", "-n", "2")
    report = cli("top", "--once", "--interval", "0.2", "-o", "json").value
    (row,) = [one for one in report["queues"] if one["queue"] == queue]
    assert (row["messages"], row["leased"], row["pushedPerSecond"]) == (6, 2, 0)
    (group,) = [one for one in report["groups"] if one["queue"] == queue]
    assert (group["group"], group["lag"]) == ("g", 6)
    text = cli.ok("top", "--once", "--interval", "0.2", "-n", "1000")
    assert queue in text and "PUSHED/S" in text


def test_top_is_live_on_a_terminal_until_ctrl_c(cli: Cli, queue: str) -> None:
    with on_terminal("top", "--interval", "0.2", QUEEN_URL=cli.url, LINES="60") as terminal:
        terminal.wait_for("PUSHED/S")
        terminal.type("\x03")
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.shown


def _sample(at_ms: float, total: int, pending: int, lag: int) -> Sample:
    queue = wire.QueueSummary(
        id="1", name="q", namespace="", task="", created_at="", partitions=1,
        messages=wire.MessageCounts(total, pending, 0),
    )  # fmt: skip
    group = wire.ConsumerGroup(
        name="g", topics=["q"], queue_name="q", members=1, partitions_with_lag=1, total_lag=lag,
        max_time_lag=1, state="Stable", subscription_mode=None, subscription_timestamp=None,
        subscription_created_at=None, kind="consumer",
    )  # fmt: skip
    operations = wire.OperationStats(
        depth=0,
        oldest_age_seconds=None,
        drain_rate=None,
        pressure=0.0,
        aside=wire.AsideCounts(0, 0),
        by_status={},
    )
    buffer = wire.BufferState(0, 0, True, wire.FailedFiles(0, 0, 0, 0, 0))
    maintenance = wire.MaintenanceState(False, False, 0, True, buffer)
    return Sample(at_ms, {"q": queue}, {("g", "q"): group}, operations, maintenance)


def test_rates_are_differences_of_two_looks() -> None:
    report = view(_sample(0, 100, 40, 40), _sample(2000, 300, 100, 100))
    (queue,), (group,) = report["queues"], report["groups"]
    assert (queue["pushedPerSecond"], queue["completedPerSecond"]) == (100, 70)
    assert group["consumedPerSecond"] == 70


def test_a_queue_that_was_cleared_meanwhile_has_no_rate() -> None:
    (queue,) = view(_sample(0, 100, 40, 40), _sample(2000, 0, 0, 0))["queues"]
    assert (queue["pushedPerSecond"], queue["completedPerSecond"]) == (None, None)


def test_bench_measures_every_scenario_and_leaves_nothing(cli: Cli, tmp_path: Path) -> None:
    little = ["--seconds", "1.5", "--messages", "50", "--connections", "2"]
    ended = cli("bench", *little, "-o", "json")
    assert ended.code == 0
    report = ended.value
    names = [one["scenario"] for one in report["results"]]
    assert names == ["push", "pop", "push-pop", "latency"]
    assert all(one["messages"] > 0 and one["milliseconds"]["p50"] > 0 for one in report["results"])
    assert report["results"][1]["messages"] <= 50
    assert report["client"]["cpus"] and report["server"] == {"url": cli.url, "version": VERSION}
    assert cli("queues", "list", "--search", "queen-bench", "-o", "json").value == []
    old = tmp_path / "old.json"
    old.write_text(ended.out)
    again = cli("bench", "push", "--seconds", "0.2", "--compare", str(old), "-o", "json").value
    assert again["results"][0]["before"]["messagesPerSecond"] > 0
    assert "messagesPerSecond" in again["results"][0]["change"]
    assert "P50 BEFORE" in cli.ok("bench", "push", "--seconds", "0.2", "--compare", str(old))


@pytest.mark.parametrize("text", ["{", json.dumps({"a": 1}), "[]"])
def test_bench_compares_with_its_own_reports_only(cli: Cli, tmp_path: Path, text: str) -> None:
    file = tmp_path / "old.json"
    file.write_text(text)
    ended = cli("bench", "push", "--compare", str(file))
    assert ended.code == 2 and "is not the output of queen bench -o json" in ended.err
