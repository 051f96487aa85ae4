"""Pages of lists: which part of a list a request asks for."""

from __future__ import annotations

from typing import Any

from queenmq import wire
from queenmq.errors import InvalidRequest
from queenmq.server.requests.queries import parse_integer

#: Elements of one list.
PAGE_MAX = 10_000
_OFFSET_MAX = 2**31 - 1
#: The parameters that `parse_page` reads.
PAGE: dict[str, Any] = {"limit": int, "offset": int}


def parse_page(
    query: dict[str, str], *, default: int = 100, limit_max: int = PAGE_MAX
) -> wire.Pagination:
    """Return limit and offset of a list."""
    return wire.Pagination(
        _page(query, "limit", default, limit_max), _page(query, "offset", 0, _OFFSET_MAX)
    )


def _page(query: dict[str, str], field: str, default: int, largest: int) -> int:
    number = parse_integer(query, field, default)
    if not 0 <= number <= largest:
        raise InvalidRequest(f"{field} {number} is out of range; use 0 to {largest}")
    return number
