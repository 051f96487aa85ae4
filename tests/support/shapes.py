"""Shapes of JSON answers: which fields they have and of which type. More fields are always fine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@dataclass(frozen=True)
class Kind:
    """A type of a value that has no fields."""

    name: str
    fits: Callable[[Any], bool]


@dataclass(frozen=True)
class Maybe:
    """Null, or a value of this shape."""

    shape: Any


@dataclass(frozen=True)
class Many:
    """An array of this shape, perhaps empty. A list with a shape in it has at least one item."""

    shape: Any


@dataclass(frozen=True)
class Keyed:
    """An object with any names, at least one, and values of this shape."""

    shape: Any


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


STR = Kind("a string", lambda value: isinstance(value, str))
INT = Kind("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool))
NUM = Kind("a number", _is_number)
BOOL = Kind("true or false", lambda value: isinstance(value, bool))
UUID = Kind("a UUID", lambda value: isinstance(value, str) and bool(_UUID.fullmatch(value)))
TIME = Kind("a time that ends in Z", lambda value: bool(_TIME.fullmatch(str(value))))
MICRO_TIME = Kind("a time in microseconds", lambda value: bool(_MICRO_TIME.fullmatch(str(value))))
OBJECT = Kind("an object", lambda value: isinstance(value, dict))
ANY = Kind("any value", lambda value: True)


def find_differences(value: Any, shape: Any, where: str = "answer") -> Iterator[str]:
    """Yield a sentence for each part of a value that is not of this shape."""
    match shape:
        case Kind():
            if not shape.fits(value):
                yield f"{where} is {value!r}, not {shape.name}"
        case Maybe(inner):
            if value is not None:
                yield from find_differences(value, inner, where)
        case Many(inner):
            yield from _in_array(value, inner, where, least=0)
        case list():
            yield from _in_array(value, shape[0], where, least=1)
        case Keyed(inner):
            yield from _in_array(
                list(value.values()) if isinstance(value, dict) else value, inner, where, least=1
            )
        case dict():
            yield from _in_object(value, shape, where)
        case _:
            if value != shape:
                yield f"{where} is {value!r}, not {shape!r}"


def _in_array(value: Any, shape: Any, where: str, *, least: int) -> Iterator[str]:
    if not isinstance(value, list) or len(value) < least:
        yield f"{where} is {str(value)[:80]}, not an array of {least} or more"
        return
    for number, item in enumerate(value):
        yield from find_differences(item, shape, f"{where}[{number}]")


def _in_object(value: Any, shape: dict[str, Any], where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where} is {str(value)[:80]}, not an object"
        return
    for name, inner in shape.items():
        if name not in value:
            yield f"{where} has no {name!r}"
        else:
            yield from find_differences(value[name], inner, f"{where}.{name}")
