"""Checks arguments of calls, so that a wrong one is refused before anything is sent."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from queenmq.client.spelling import suggest


def check_names(call: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise TypeError if a keyword is not one of the call."""
    for name in given:
        if name not in known:
            raise TypeError(f"{call} has no argument {name!r}; {suggest(name, known)}")


def check_integer(name: str, value: Any, *, low: int | None = None) -> Any:
    """Return the value if it is an integer from `low` on."""
    if type(value) is not int and (isinstance(value, bool) or not hasattr(value, "__index__")):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    _check_range(name, value, low)
    return value


def check_number(name: str, value: Any, *, low: int) -> None:
    """Raise if the value is not a number from `low` on."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, not {value!r}")
    _check_range(name, value, low)


def check_flag(name: str, value: Any) -> None:
    """Raise TypeError if the value is not a bool. Any text would count as true."""
    if value is not True and value is not False:
        raise TypeError(f"{name} must be True or False, not {value!r}")


def check_function(call: str, value: Any) -> None:
    """Raise TypeError if the value cannot be called. None stands for no function."""
    if value is not None and not callable(value):
        raise TypeError(f"{call} takes a function as handler, not {value!r}")


def _check_range(name: str, value: Any, low: int | None) -> None:
    if low is not None and not value >= low:
        raise ValueError(f"{name} is {value}; it must be {low} or more")
