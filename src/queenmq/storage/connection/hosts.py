"""Parses the database URL, which may name several hosts. Pure."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from queenmq.errors import SettingsError

_SCHEMES = ("postgresql", "postgres")
_FORM = "postgresql://user@host:5432/database"
_TARGETS = ("any", "primary", "read-write", "read-only", "standby", "prefer-standby")
_PORT_MAX = 65_535


class Host(NamedTuple):
    """The address of a server. Without a name it is the driver's default."""

    name: str | None
    port: int | None

    def __str__(self) -> str:
        if self.name is None:
            return "the default host"
        return self.name if self.port is None else f"{self.name}:{self.port}"


class DatabaseUrl(NamedTuple):
    """A valid URL. `text` may contain a password, so it is never shown."""

    text: str
    hosts: tuple[Host, ...]
    target: str
    sslmode: str | None


def parse_url(text: str) -> DatabaseUrl:
    """Read a URL. Raises SettingsError that names the part at fault, never the password."""
    try:
        parts = urlsplit(text)
        query = {name: values[-1] for name, values in _parse_query(parts.query).items()}
    except ValueError as error:
        raise SettingsError(f"the database URL cannot be read; use {_FORM}") from error
    if parts.scheme not in _SCHEMES:
        scheme = f"starts with {parts.scheme}:" if parts.scheme else "has no scheme"
        raise SettingsError(f"the database URL {scheme}; use {_FORM}")
    account, _, places = parts.netloc.rpartition("@")
    if "@" in account:
        raise SettingsError("the database URL has an @ in its user or password; write it as %40")
    hosts = _parse_hosts(unquote(places) or query.get("host", ""), query.get("port", ""))
    target = query.get("target_session_attrs", "read-write" if len(hosts) > 1 else "any")
    if target not in _TARGETS:
        raise SettingsError(
            f"target_session_attrs in the database URL cannot be {target!r};"
            f" use one of {', '.join(_TARGETS)}"
        )
    return DatabaseUrl(text, hosts, target, query.get("sslmode"))


def _parse_query(text: str) -> dict[str, list[str]]:
    return parse_qs(text, strict_parsing=True) if text else {}


def _parse_hosts(places: str, ports: str) -> tuple[Host, ...]:
    if not places:
        return (Host(None, _parse_port(ports) if ports else None),)
    names = places.split(",")
    common = ports.split(",") if ports else []
    if len(common) not in (0, 1, len(names)):
        raise SettingsError(
            f"the database URL names {len(names)} hosts and {len(common)} ports;"
            " give one port, or one for each host"
        )
    defaults = common * len(names) if len(common) == 1 else common or [""] * len(names)
    return tuple(_parse_host(*pair) for pair in zip(names, defaults, strict=True))


def _parse_host(place: str, port: str) -> Host:
    if place.startswith("/"):
        # A directory with sockets.
        return Host(place, _parse_port(port) if port else None)
    name, colon, own = place.rpartition(":")
    if not colon or place.endswith("]"):
        name, own = place, ""
    if not name:
        raise SettingsError(f"the database URL has no host before {place!r}; use {_FORM}")
    port = own or port
    return Host(name.strip("[]"), _parse_port(port) if port else None)


def _parse_port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _PORT_MAX:
        raise SettingsError(
            f"port {text!r} in the database URL must be a number from 1 to {_PORT_MAX}"
        )
    return int(text)
