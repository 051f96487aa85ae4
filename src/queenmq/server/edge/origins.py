"""Decides which web pages may talk to this server through a visitor's browser. Pure.

A browser sends requests for any page to any address it can reach, including 127.0.0.1. Its headers
say where a request comes from: `Origin`, `Sec-Fetch-Site`, and with DNS rebinding the `Host` of the
page. Programs other than browsers send none of these.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass

from queenmq.server.edge.head import Head
from queenmq.server.edge.refusal import Refused

_METHODS = b"GET, POST, PUT, DELETE, OPTIONS"
_HEADERS = b"Content-Type, Authorization, Idempotency-Key"


@dataclass(frozen=True, slots=True)
class OriginRules:
    """Origins of pages that may use this server, and the names it is known by."""

    cors_origins: tuple[str, ...] = ()
    #: None allows every name: the server is reached under names that it cannot know.
    allowed_hosts: tuple[str, ...] | None = ()


def make_judge(rules: OriginRules) -> Callable[[Head], tuple[tuple[bytes, bytes], ...]]:
    """Return a function that refuses foreign pages and lets listed ones read answers."""
    listed = set(rules.cors_origins)

    def judge(head: Head) -> tuple[tuple[bytes, bytes], ...]:
        if rules.allowed_hosts is not None:
            _check_host(head.host, rules.allowed_hosts)
        given = head.get(b"origin")
        origin = None if given is None else _text(given)
        if origin is not None and (origin in listed or "*" in listed):
            return (
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-allow-methods", _METHODS),
                (b"access-control-allow-headers", _HEADERS),
                (b"access-control-max-age", b"86400"),
                (b"vary", b"Origin"),
            )
        if origin is not None and not _is_same(origin, _text(head.host)):
            raise _foreign(f"A page of {origin[:60]!r}", repr(origin[:60]))
        if head.get(b"sec-fetch-site") in (b"cross-site", b"same-site") and not _is_visit(head):
            raise _foreign("A page of another site", "its origin")
        return ()

    return judge


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches a server that listens there."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _check_host(host: bytes, allowed: tuple[str, ...]) -> None:
    name = _text(host).lower()
    bare = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name
    bare = bare.strip("[]").rstrip(".")
    if not bare or bare == "localhost" or bare.endswith(".localhost") or bare in allowed:
        return
    try:
        # DNS rebinding needs a name. An address cannot be redirected.
        ipaddress.ip_address(bare)
    except ValueError:
        raise Refused(
            403,
            f"Host {name[:60]!r} is not a name of this server."
            " Use localhost or an address, or add the name to allowed_hosts.",
        ) from None


def _is_same(origin: str, host: str) -> bool:
    scheme, _, rest = origin.partition("://")
    return scheme in ("http", "https") and rest.lower() == host.lower()


def _is_visit(head: Head) -> bool:
    """Return whether the request follows a link, so that the linking page sees no answer."""
    return (
        head.method in ("GET", "HEAD")
        and head.get(b"sec-fetch-mode") == b"navigate"
        and head.get(b"sec-fetch-dest") == b"document"
        # A pop is a GET that takes messages.
        and not head.path.startswith(b"/api/v1/pop")
    )


def _foreign(who: str, what: str) -> Refused:
    return Refused(403, f"{who} may not use this server. Add {what} to cors_origins if it should.")


def _text(value: bytes) -> str:
    return value.decode("latin-1")
