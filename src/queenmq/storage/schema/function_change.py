"""Decides how a changed SQL function replaces the one that older brokers call. Pure."""

from __future__ import annotations

import enum
from typing import NamedTuple

from queenmq.errors import MigrationError


class FunctionVersion(NamedTuple):
    """One function of the database as its callers see it."""

    #: Name and argument types, as DROP FUNCTION takes them.
    signature: str
    types: tuple[str, ...]
    names: tuple[str, ...]
    default_count: int
    #: Everything about its result: type, names and types of its columns.
    result: str

    @property
    def required_count(self) -> int:
        """Return how many arguments every call has to give."""
        return len(self.types) - self.default_count


class Change(enum.Enum):
    """The way to replace the old version."""

    #: It keeps its name, because no call fits both.
    BESIDE = enum.auto()
    #: It is renamed, because the new one accepts every call of it and answers alike.
    INSTEAD = enum.auto()


def judge(name: str, old: FunctionVersion, new: FunctionVersion) -> Change:
    """Return how both versions can coexist until the upgrade is finished.

    Raises MigrationError if calls of older brokers would fail or get an answer of another shape.
    """
    first = max(old.required_count, new.required_count)
    last = min(len(old.types), len(new.types))
    if first > last:
        return Change.BESIDE
    # Some number of arguments fits both, and PostgreSQL refuses a call that two functions fit.
    if old.result != new.result:
        raise _refusal(name, f"returns {new.result} instead of {old.result}")
    count = len(old.types)
    if new.types[:count] != old.types or new.required_count > old.required_count:
        raise _refusal(name, "does not take every call of the released one")
    if new.names[:count] != old.names:
        raise _refusal(name, "has other argument names")
    return Change.INSTEAD


def _refusal(name: str, fault: str) -> MigrationError:
    return MigrationError(
        f"function queen.{name} {fault}, so brokers of the release before could not call it;"
        " give the changed function a new name"
    )
