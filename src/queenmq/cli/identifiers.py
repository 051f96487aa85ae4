"""Owns ids as they stand on a command line: each is a UUID that an earlier command printed."""

from __future__ import annotations

from collections.abc import Callable

from queenmq.cli.exits import UsageProblem
from queenmq.ids import parse_uuid


def check_id(what: str, source: str) -> Callable[[str | None], str | None]:
    """Return a callback that refuses what is no id, and names the command that prints ids."""

    def check(value: str | None) -> str | None:
        if value is not None and parse_uuid(value) is None:
            raise UsageProblem(f"{value!r:.60} is not the id of {what}; {source} prints ids")
        return value

    return check
