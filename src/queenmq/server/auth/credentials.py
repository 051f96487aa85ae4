"""Reads the credential of a request. Pure."""

from __future__ import annotations

from typing import NamedTuple

from queenmq.server.edge.head import Head

COOKIE = "queen_session"
CSRF_HEADER = b"x-queen-csrf"
_COOKIE = COOKIE.encode() + b"="
_BEARER = b"bearer "


class Credential(NamedTuple):
    """A token, and whether it came as a cookie, which a browser adds by itself."""

    token: str
    is_cookie: bool = False


def find_credential(head: Head) -> Credential | None:
    """Return the token of the Authorization header, else that of the session cookie."""
    given = head.get(b"authorization")
    if given is not None:
        # Two headers arrive joined, which is not a token.
        return Credential(_strip(given))
    for name, value in head.headers:
        if name == b"cookie":
            for part in value.split(b";"):
                one = part.strip()
                if one.startswith(_COOKIE):
                    return Credential(one[len(_COOKIE) :].decode("latin-1"), is_cookie=True)
    return None


def _strip(value: bytes) -> str:
    """Return the token. Clients may omit the word Bearer."""
    token = value[len(_BEARER) :] if value[: len(_BEARER)].lower() == _BEARER else value
    return token.strip().decode("latin-1")
