"""Decides to which servers a broker may copy its database. Pure.

An administrator names the server in a request, and the broker connects to it. Without a list that
would reach whatever the broker's network reaches, port by port, and take the whole database along.
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from queenmq.errors import Forbidden, SettingsError

_PORT = "5432"
_ANY = "*"
_ENTRY = re.compile(
    r"(?P<host>/[^,:]*|\[[0-9A-Fa-f:.]+\]|\*|(?:\*\.)?[A-Za-z0-9_-][A-Za-z0-9._-]*)"
    r"(?::(?P<port>\d{1,5}|\*))?"
)


class _Target(NamedTuple):
    """A host, `*` for all or `*.domain`, and a port or `*`."""

    host: str
    port: str

    def matches(self, host: str, port: str) -> bool:
        if self.port not in (_ANY, port):
            return False
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        return self.host in (_ANY, host)


class MoveTargets:
    """The servers that the setting lists."""

    def __init__(self, targets: tuple[_Target, ...] = ()) -> None:
        self._targets = targets

    def check(self, host: str, port: str | int) -> None:
        """Raise Forbidden for a server that is not listed."""
        plain, number = _plain(host), str(int(port))
        if not any(one.matches(plain, number) for one in self._targets):
            raise Forbidden(
                f"move_targets does not list host {host!r:.80}, port {number}. Add it to"
                " QUEEN_MOVE_TARGETS of this broker, or run queen db move on the command line."
            )


def parse_targets(text: str) -> MoveTargets:
    """Return the servers of a list like `db.example, 10.0.0.5:5433, *.db.example:*`."""
    parts = filter(None, (part.strip() for part in text.split(",")))
    return MoveTargets(tuple(map(_parse, parts)))


def _parse(part: str) -> _Target:
    found = _ENTRY.fullmatch(part)
    port = (found and found["port"]) or _PORT
    if found is None or (port != _ANY and not 1 <= int(port) <= 65_535):
        raise SettingsError(
            f"move_targets has {part!r}, which is neither a host nor host:port; use for example"
            " db.example, 10.0.0.5:5433, [::1]:5432 or *.db.example:*"
        )
    host = found["host"]
    return _Target(_plain(host.strip("[]")), port if port == _ANY else str(int(port)))


def _plain(host: str) -> str:
    """Return one spelling of a host. Names of directories with sockets are left as they are."""
    if host.startswith("/"):
        return host
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower()
