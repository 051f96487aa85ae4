"""`queen pipeline lake verify|optimize|vacuum`: their runs are listed, and never in their way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake", reason="needs the spark extra")

from queenmq.spark.lake.layout import Lake
from queenmq.spark.lake.table import open_or_create, open_table
from tests.support.command_line import Cli, Ended
from tests.support.small_lake import add_entry, write_file

_WARNING = "warning: `queen pipeline runs` does not list this run: "


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lake of two small files; the default data directory is that of an empty folder."""
    monkeypatch.chdir(tmp_path)
    found = Lake.at("lake")
    open_or_create(found)
    open_table(found).commit([write_file(found, 1)]).commit([write_file(found, 2)])
    return str(tmp_path / "lake")


@pytest.fixture
def in_database(shared_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEEN_DATABASE_URL", shared_database_url)


def _run(cli: Cli, command: str, lake: str, *options: str) -> Ended:
    return cli("pipeline", "lake", command, "--lake", lake, "-o", "json", *options)


def _runs(cli: Cli, command: str, lake: str) -> list[dict[str, Any]]:
    """Runs of a command on this lake, newest first, with their tables."""
    listed = cli("pipeline", "runs", "--job", f"lake {command}", "-o", "json").value
    return [
        cli("pipeline", "runs", row["run"], "-o", "json").value
        for row in listed
        if row["options"]["lake"] == lake
    ]


@pytest.mark.usefixtures("in_database")
def test_optimize_and_vacuum_are_listed_with_their_figures(cli: Cli, lake: str) -> None:
    ended = _run(cli, "optimize", lake, "--z-order")
    assert (ended.code, ended.err) == (0, "")
    (run,) = _runs(cli, "optimize", lake)
    assert run["outcome"] == "done" and run["finishedAt"]
    assert run["figures"] == ended.value["figures"]
    assert (run["figures"]["files before"], run["figures"]["files"]) == (2, 1)
    assert run["options"] == {"lake": lake, "z-order": True}

    assert _run(cli, "vacuum", lake, "--hours", "24").code == 0
    (run,) = _runs(cli, "vacuum", lake)
    assert run["outcome"] == "done" and run["figures"]["files removed"] == 0
    assert run["options"] == {"lake": lake, "hours": 24}


@pytest.mark.usefixtures("in_database")
def test_findings_of_verify_are_listed(cli: Cli, lake: str) -> None:
    add_entry(Lake.at(lake), 1, 2, checksum=1)
    ended = _run(cli, "verify", lake)
    assert ended.code == 6
    (run,) = _runs(cli, "verify", lake)
    assert run["outcome"] == "found" and run["figures"]["partitions that differ"] == 1
    assert run["tables"]["differences"]["rows"] == [["a b", "p", 2, 2, "changed"]]


@pytest.mark.usefixtures("in_database")
@pytest.mark.parametrize("command", ["verify", "optimize", "vacuum"])
def test_a_failure_is_listed_with_its_reason(cli: Cli, tmp_path: Path, command: str) -> None:
    nowhere = str(tmp_path / "nolake")
    ended = _run(cli, command, nowhere)
    assert ended.code == 3
    (run,) = _runs(cli, command, nowhere)
    assert run["outcome"] == "failed" and "there is no lake at" in run["error"]


@pytest.mark.usefixtures("in_database")
def test_plans_and_descriptions_are_not_listed(cli: Cli, lake: str) -> None:
    for command in ("optimize", "vacuum"):
        assert _run(cli, command, lake, "--dry-run").code == 0
    assert _run(cli, "describe", lake).code == 0
    assert [_runs(cli, name, lake) for name in ("optimize", "vacuum", "describe")] == [[], [], []]


def test_the_database_can_be_named_by_an_option(
    cli: Cli, lake: str, shared_database_url: str
) -> None:
    assert _run(cli, "verify", lake, "--database-url", shared_database_url).code == 0
    assert len(_runs(cli, "verify", lake)) == 1


def test_nothing_is_listed_or_said_without_a_database(cli: Cli, lake: str) -> None:
    ended = _run(cli, "verify", lake)
    assert (ended.code, ended.err) == (0, "")
    assert _runs(cli, "verify", lake) == []


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("postgresql://127.0.0.1:1/x", id="unreachable"),
        pytest.param("postgresql://[::1/x", id="malformed"),
        pytest.param("mysql://127.0.0.1/x", id="another database"),
    ],
)
def test_a_run_that_cannot_be_listed_does_its_work_and_warns_once(
    cli: Cli, lake: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUEEN_DATABASE_URL", url)
    ended = _run(cli, "optimize", lake)
    assert (ended.code, ended.value["figures"]["files"]) == (0, 1)
    assert ended.err.startswith(_WARNING) and ended.err.count("\n") == 1


def test_a_database_without_queen_is_one_warning(
    cli: Cli, lake: str, empty_database_url: str
) -> None:
    ended = _run(cli, "verify", lake, "--database-url", empty_database_url)
    assert ended.code == 0
    assert ended.err.startswith(_WARNING) and ended.err.count("\n") == 1


def test_a_data_directory_that_is_named_has_to_exist(cli: Cli, lake: str) -> None:
    ended = _run(cli, "verify", lake, "--data-dir", "nowhere")
    assert ended.code == 3 and "holds no embedded PostgreSQL" in ended.err
