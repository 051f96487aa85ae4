"""Parses query strings, path parts and times strictly: invalid text is refused, not guessed."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import unquote, unquote_plus

from queenmq.errors import InvalidRequest
from queenmq.server.requests.checks import quote


def parse_query(query_string: bytes) -> dict[str, str]:
    """Return the parameters. If one is given twice, the first counts."""
    query: dict[str, str] = {}
    for part in query_string.split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            try:
                query.setdefault(
                    unquote_plus(name.decode()), unquote_plus(value.decode(), errors="strict")
                )
            except UnicodeDecodeError:
                field = quote(name.decode("latin-1"))
                raise InvalidRequest(
                    f"query parameter {field} is not valid UTF-8; encode it as UTF-8"
                ) from None
    return query


def parse_path(part: bytes) -> str:
    """Return a path or a part of one, without its escapes."""
    try:
        return unquote(part.decode(), errors="strict")
    except UnicodeDecodeError:
        text = part.decode("latin-1")
        raise InvalidRequest(
            f"path part {quote(text)} is not valid UTF-8; encode it as UTF-8"
        ) from None


def parse_integer(query: dict[str, str], name: str, default: int) -> int:
    """Return a number. Text that is not a number counts as absent, as clients expect."""
    try:
        return int(query[name])
    except (KeyError, ValueError):
        return default


def parse_boolean(query: dict[str, str], name: str) -> bool:
    """Return True for `true` and `1` only."""
    return query.get(name) in ("true", "1")


def parse_time(field: str, value: str) -> datetime:
    """Return a time in ISO 8601, in UTC where it names no zone."""
    try:
        time = datetime.fromisoformat(value)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise InvalidRequest(
            f"{field} {quote(value)} is not a time; use ISO 8601, as in 2030-01-31T12:00:00Z"
        ) from None
