"""Contexts: kept privately, chosen by a fixed order, and a token goes to its own server only."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from queenmq.cli import contexts
from queenmq.cli.contexts import DEFAULT_URL, Contexts, Server, choose_server
from tests.support.command_line import Cli


def test_a_context_is_kept_in_a_private_file(cli: Cli, own_config: Path) -> None:
    cli.ok("context", "set", "local", "--url", cli.url + "/", "--token", 'a"b\\ü')
    assert own_config.stat().st_mode & 0o777 == 0o600
    assert tomllib.loads(own_config.read_text()) == {
        "current": "local",
        "contexts": {"local": {"url": cli.url, "token": 'a"b\\ü'}},
    }


def test_a_token_is_not_shown_unless_asked_for(cli: Cli) -> None:
    cli.ok("context", "set", "local", "--url", cli.url, "--token", "-", stdin="secret\n")
    assert "secret" not in cli.ok("context", "list") + cli.ok("context", "show")
    assert cli("context", "show", "--with-token", "-o", "json").value["token"] == "secret"


def test_contexts_are_added_used_and_forgotten(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.ok("context", "set", "here", "--url", cli.url)
    cli.ok("context", "set", "there", "--url", "http://127.0.0.1:1")
    rows = cli("context", "list", "-o", "json").value
    assert [(row["name"], row["isCurrent"]) for row in rows] == [("here", True), ("there", False)]
    monkeypatch.delenv("QUEEN_URL")
    assert cli("queues", "list").code == 0
    cli.ok("context", "use", "there")
    assert cli("queues", "list").code == 4
    assert cli("queues", "list", "--context", "here").code == 0
    cli.ok("context", "delete", "there", "--yes")
    assert cli("context", "show").out.startswith("no context is in use")


def test_a_context_that_is_not_there_is_named(cli: Cli) -> None:
    ended = cli("queues", "list", "--context", "nowhere")
    assert ended.code == 3 and "context 'nowhere' does not exist" in ended.err


@pytest.mark.parametrize("url", ["localhost:6632", "ftp://x", "http://", "http://x:99999", ""])
def test_a_url_that_cannot_be_one_is_refused(cli: Cli, url: str) -> None:
    ended = cli("context", "set", "bad", "--url", url)
    assert ended.code == 2 and ended.err.count("\n") == 1


@pytest.mark.parametrize("text", ["current = 7", "[contexts.a]\nuri = 'x'", "[[", "more = 1"])
def test_a_broken_file_is_named(cli: Cli, own_config: Path, text: str) -> None:
    own_config.parent.mkdir(parents=True)
    own_config.write_text(text)
    ended = cli("context", "list")
    assert ended.code == 2 and str(own_config) in ended.err


def test_a_file_that_others_can_read_is_pointed_out(cli: Cli, own_config: Path) -> None:
    cli.ok("context", "set", "a", "--url", cli.url)
    own_config.chmod(0o644)
    assert "others can read" in cli("context", "list").err


FLAG, ENV = False, True
NONE = (None, FLAG)
KEPT = Contexts(
    current="here",
    contexts={"here": Server("http://here:1", "h"), "there": Server("http://there:1", "t")},
)


@pytest.mark.parametrize(
    ("url", "token", "context", "expected"),
    [
        (NONE, NONE, NONE, Server("http://here:1", "h")),
        (NONE, NONE, ("there", ENV), Server("http://there:1", "t")),
        (NONE, ("x", ENV), ("there", FLAG), Server("http://there:1", "x")),
        (("http://env:1", ENV), NONE, NONE, Server("http://env:1", None)),
        (("http://env:1", ENV), NONE, ("there", ENV), Server("http://env:1", None)),
        (("http://env:1", ENV), NONE, ("there", FLAG), Server("http://there:1", "t")),
        (("http://flag:1", FLAG), NONE, ("there", FLAG), Server("http://flag:1", None)),
        (("http://flag:1", FLAG), ("x", FLAG), NONE, Server("http://flag:1", "x")),
    ],
)
def test_a_server_is_chosen_by_a_fixed_order(
    tmp_path: Path,
    url: tuple[str | None, bool],
    token: tuple[str | None, bool],
    context: tuple[str | None, bool],
    expected: Server,
) -> None:
    path = tmp_path / "config.toml"
    contexts.save(path, KEPT)
    assert choose_server({"url": url, "token": token, "context": context}, path) == expected


def test_without_anything_the_server_is_here(tmp_path: Path) -> None:
    given = {"url": NONE, "token": NONE, "context": NONE}
    assert choose_server(given, tmp_path / "none.toml") == Server(DEFAULT_URL)
