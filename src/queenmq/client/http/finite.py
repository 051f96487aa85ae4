"""Refuses numbers that JSON cannot express: msgspec would write them as null."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

#: A double of MessagePack whose exponent says infinite or not a number.
_SUSPECT = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")


def check_finite(value: Any, encoded: bytes) -> None:
    """Raise ValueError if a number of a value is not finite. `encoded` is the value as JSON.

    Such a number leaves a null behind. So most requests cost a search for `null`, and the others
    a second encoding, to a format that keeps these numbers. Only a find is walked through.
    """
    if b"null" not in encoded:
        return
    try:
        is_suspect = _SUSPECT.search(msgspec.msgpack.encode(value)) is not None
    except OverflowError:
        # An integer of more than 64 bits.
        is_suspect = True
    if is_suspect:
        _walk(msgspec.to_builtins(value), "")


def _walk(value: Any, place: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place} is {value}, which JSON cannot express; push None or a text")
    if isinstance(value, dict):
        for name, one in value.items():
            _walk(one, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            _walk(one, f"{place}[{number}]")
