"""Reads the credential of a request. Pure."""

from __future__ import annotations

from typing import NamedTuple

from queenmq.server.edge.head import Head

#: The session cookie over plain HTTP, and over https. Browsers take a `__Host-` name from this very
#: host over https only, so neither plain HTTP nor another host of the domain can plant one.
PLAIN_COOKIE = "queen_session"
HOST_COOKIE = "__Host-queen_session"
CSRF_HEADER = b"x-queen-csrf"
_BEARER = b"bearer "


class Credential(NamedTuple):
    """A token, and whether it came as a cookie, which a browser adds by itself."""

    token: str
    is_cookie: bool = False


def cookie_name(*, is_https: bool) -> str:
    """Return the name of the session cookie. The other name counts for nothing."""
    return HOST_COOKIE if is_https else PLAIN_COOKIE


def find_token(head: Head) -> Credential | None:
    """Return the token of the Authorization header. It goes before a cookie."""
    given = head.get(b"authorization")
    # Two headers arrive joined, which is not a token.
    return None if given is None else Credential(_strip(given))


def find_session(head: Head, *, is_https: bool) -> Credential | None:
    """Return the session of the cookie."""
    start = cookie_name(is_https=is_https).encode() + b"="
    for name, value in head.headers:
        if name == b"cookie":
            for part in value.split(b";"):
                # What browsers trim, and no more: another name must not become this one.
                one = part.strip(b" \t")
                if one.startswith(start):
                    return Credential(one[len(start) :].decode("latin-1"), is_cookie=True)
    return None


def _strip(value: bytes) -> str:
    """Return the token. Clients may omit the word Bearer."""
    token = value[len(_BEARER) :] if value[: len(_BEARER)].lower() == _BEARER else value
    return token.strip().decode("latin-1")
