"""Checks of values in requests that their types do not express: names, ids, sizes.

Each error names the field, its value and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from queenmq.engine.requests import QUEUE_MODE
from queenmq.errors import InvalidRequest
from queenmq.ids import parse_uuid

#: A value in an error message is cut here.
_SHOWN = 60
#: Three names share one index entry, which holds 2,700 bytes.
_NAME_BYTES_MAX = 765
#: No name of so few characters has more bytes than that.
ALWAYS_FITS = _NAME_BYTES_MAX // 4


def quote(value: str) -> str:
    """Quote a value for an error message, cut to a readable length."""
    return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")


def check_name(field: str, value: str, *, length_max: int) -> str:
    """Return a name that a text column can hold."""
    if not value:
        raise InvalidRequest(f"{field} must not be empty; give it 1 to {length_max} characters")
    if len(value) > length_max:
        raise InvalidRequest(
            f"{field} {quote(value)} has {len(value)} characters; use at most {length_max}"
        )
    if "\x00" in value:
        raise InvalidRequest(f"{field} {quote(value)} contains a NUL character; remove it")
    if len(value) > ALWAYS_FITS and len(value.encode()) > _NAME_BYTES_MAX:
        raise InvalidRequest(
            f"{field} {quote(value)} has {len(value.encode())} bytes; use at most {_NAME_BYTES_MAX}"
        )
    return value


def check_names(field: str, values: Sequence[str | None], *, length_max: int) -> None:
    """Check many names, those that are not None."""
    given = [value for value in values if value is not None]
    if given and join_plain(given, length_max=length_max) is None:
        for value in given:
            check_name(field, value, length_max=length_max)


def join_plain(names: Sequence[str], *, length_max: int) -> str | None:
    """Return names joined by line feeds, or None if one of them needs a closer look."""
    sizes = [len(name) for name in names]
    joined = "\n".join(names)
    is_plain = (
        min(sizes) > 0
        and max(sizes) <= min(length_max, ALWAYS_FITS)
        and "\x00" not in joined
        and joined.count("\n") < len(names)
    )
    return joined if is_plain else None


def check_text(field: str, value: str | None) -> str | None:
    """Free text that a text column can hold."""
    if value is not None and "\x00" in value:
        raise InvalidRequest(f"{field} {quote(value)} contains a NUL character; remove it")
    return value


def check_uuid(field: str, value: str) -> UUID:
    """Return a UUID in its usual form."""
    parsed = parse_uuid(value)
    if parsed is None:
        raise InvalidRequest(
            f"{field} {quote(value)} is not a UUID; send the one that the server gave"
        )
    return parsed


def check_group(value: str | None, *, length_max: int) -> str:
    """Return a consumer group; none means the default one."""
    return check_name("consumerGroup", value, length_max=length_max) if value else QUEUE_MODE


def check_count(field: str, count: int, *, count_max: int) -> None:
    """Check the number of items in one request."""
    if count > count_max:
        raise InvalidRequest(f"{field} has {count} elements; send at most {count_max} per request")
