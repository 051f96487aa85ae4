"""Help says what the source says, fits 80 columns, and explains every option."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import typer

from queenmq.cli import main
from queenmq.cli.display.help import every_command
from tests.support.command_line import Cli

COMMANDS = dict(every_command(typer.main.get_command(main.make_app())))


def shown(cli: Cli, path: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    ended = cli(*path.split()[1:], "--help")
    assert (ended.code, ended.err) == (0, "")
    return ended.out


def words(text: str) -> str:
    """The letters without frames and breaks, which fall anywhere."""
    return re.sub(r"[\s│╭╮╰╯─]+", "", text)


@pytest.mark.parametrize("path", COMMANDS)
def test_help_has_every_letter_of_the_source(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    out, command = shown(cli, path, monkeypatch), COMMANDS[path]
    assert words(inspect.cleandoc(command.help or "")) in words(out)
    for parameter in command.params:
        for line in _help_of(parameter).split():
            assert line in out, (path, parameter.name)


def _help_of(parameter: Any) -> str:
    return str(getattr(parameter, "help", None) or "")


@pytest.mark.parametrize("path", COMMANDS)
def test_help_fits_80_columns(cli: Cli, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    assert max(len(line) for line in shown(cli, path, monkeypatch).splitlines()) <= 80


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_is_explained(path: str) -> None:
    bare = [one.name for one in COMMANDS[path].params if not _help_of(one)]
    assert bare == [], path


@pytest.mark.parametrize("path", COMMANDS)
def test_h_is_help_too(cli: Cli, path: str) -> None:
    assert cli(*path.split()[1:], "-h").out == cli(*path.split()[1:], "--help").out


def test_angle_and_square_brackets_are_shown(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "QUEEN_<NAME>" in shown(cli, "queen serve", monkeypatch)
    assert "<lake>/analytics" in shown(cli, "queen pipeline analytics", monkeypatch)
    assert "[queues.NAME]" in shown(cli, "queen apply", monkeypatch)
    assert "local[*]" in shown(cli, "queen pipeline audit", monkeypatch)
