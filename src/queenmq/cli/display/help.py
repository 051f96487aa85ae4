"""Shows the help texts of all commands exactly as the source has them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

#: What a value looks like, by the name that typer has for its type.
_KINDS = {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "path": "PATH", "list[str]": "TEXT"}


def prepare(command: Any) -> Any:
    """Make a command and all below it show their texts as they are written.

    Typer's help reads them as markup, in which `[queues.NAME]` is a style. It also folds lines only
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
    """Yield all commands and groups with the words to type."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from every_command(below, f"{path} {name}")


def wrong_number(parameter: Any, arguments: Sequence[str]) -> str | None:
    """Say what is wrong with the number of an option and which numbers it takes. Return None if the
    option is not a number.

    Typer's own message lacks the value and, for a word, the range.
    """
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if kind not in (int, float):
        return None
    for place, word in enumerate(arguments):
        option, equals, value = word.partition("=")
        if option in parameter.opts:
            given = value if equals else "".join(arguments[place + 1 : place + 2])
            noun = "a whole number" if kind is int else "a number"
            return f"{option} cannot be {given!r}; use {noun}{_range(parameter)}"
    return None


def _range(parameter: Any) -> str:
    low, high = parameter.min, parameter.max
    if low is None:
        return "" if high is None else f" up to {high}"
    return f" from {low} on" if high is None else f" from {low} to {high}"


def _literal(text: str | None) -> str | None:
    if text is None:
        return None
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(one.split("\n")) for one in paragraphs).replace("[", "\\[")


def _name_kind(parameter: Any) -> None:
    """Return the kind of an option's value in plain words. A flag has none."""
    if parameter.param_type_name != "option" or parameter.metavar is not None:
        return
    if parameter.is_flag:
        parameter.metavar = ""
        return
    shown = parameter.display_type_rich(None)
    kind = str(shown).strip("<>") if shown is not None else ""
    if kind in _KINDS:
        parameter.metavar = _KINDS[kind]
