"""Owns the help texts of all commands: what the source says, letter by letter."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

#: What a value looks like, by the name that typer has for its type.
_KINDS = {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "path": "PATH", "list[str]": "TEXT"}


def prepare(command: Any) -> Any:
    """Make a command and all below it show their texts as they are written.

    Typer's help reads them as markup, to which `[queues.NAME]` is a style; and it folds lines only
    in the first paragraph.
    """
    command.context_settings.setdefault("help_option_names", ["--help", "-h"])
    command.help = _literal(command.help)
    for parameter in command.params:
        parameter.help = _literal(getattr(parameter, "help", None))
        _name_kind(parameter)
    for below in getattr(command, "commands", {}).values():
        prepare(below)
    return command


def every_command(command: Any, path: str = "queen") -> Iterator[tuple[str, Any]]:
    """All commands and groups by what one types."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from every_command(below, f"{path} {name}")


def _literal(text: str | None) -> str | None:
    if text is None:
        return None
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(one.split("\n")) for one in paragraphs).replace("[", "\\[")


def _name_kind(parameter: Any) -> None:
    """Name the kind of an option's value as people do; a flag has none."""
    if parameter.param_type_name != "option" or parameter.metavar is not None:
        return
    if parameter.is_flag:
        parameter.metavar = ""
        return
    shown = parameter.display_type_rich(None)
    kind = str(shown).strip("<>") if shown is not None else ""
    if kind in _KINDS:
        parameter.metavar = _KINDS[kind]
