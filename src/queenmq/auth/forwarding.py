"""Reads what a reverse proxy says about a request, if the proxy is one that was configured."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from queenmq.auth.identity import Identity, Kind, Role
from queenmq.errors import SettingsError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_SUBJECT_MAX = 255


@dataclass(frozen=True, slots=True)
class ForwardRules:
    """The trusted proxies, and the headers in which they name the user."""

    proxies: tuple[Network, ...] = ()
    user_header: bytes = b"x-forwarded-user"
    roles_header: bytes = b"x-forwarded-groups"
    role_names: Mapping[str, Role] | None = None

    def trusts(self, address: str) -> bool:
        """Return whether requests from this address come from a trusted proxy."""
        if not self.proxies:
            return False
        try:
            host = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(host, "ipv4_mapped", None)
        return any(
            (one := mapped or host).version == network.version and one in network
            for network in self.proxies
        )


def parse_networks(text: str) -> tuple[Network, ...]:
    """Return the networks of a list like `10.0.0.0/8, ::1`."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            found.append(ipaddress.ip_network(part))
        except ValueError:
            raise SettingsError(
                f"trusted_proxies has {part!r}, which is neither an address nor a network;"
                " use for example 10.0.0.5 or 10.0.0.0/24"
            ) from None
    return tuple(found)


def read_user(
    rules: ForwardRules, headers: Sequence[tuple[bytes, bytes]], address: str
) -> Identity | None:
    """Return the user that a trusted proxy has logged in, or None when there is none."""
    if not rules.trusts(address):
        return None
    users = [value for name, value in headers if name == rules.user_header]
    if len(users) != 1:
        # Twice means that one of them came from the user and passed through.
        return None
    subject = users[0].decode("utf-8", "replace").strip()
    if not subject or len(subject) > _SUBJECT_MAX or "\x00" in subject:
        return None
    roles = [value for name, value in headers if name == rules.roles_header]
    if len(roles) > 1:
        return None
    known = rules.role_names or {role.label: role for role in Role}
    words = [
        word.strip() for value in roles for word in value.decode("utf-8", "replace").split(",")
    ]
    role = max((known[word] for word in words if word in known), default=None)
    return Identity(subject, role, Kind.PROXY)


def client_address(
    rules: ForwardRules, headers: Sequence[tuple[bytes, bytes]], address: str
) -> str:
    """Return where a request comes from: the last address that no trusted proxy has."""
    if not rules.trusts(address):
        return address
    hops = [
        hop.strip()
        for name, value in headers
        if name == b"x-forwarded-for"
        for hop in value.decode("latin-1").split(",")
    ]
    for hop in reversed(hops):
        if not rules.trusts(hop):
            return hop[:64]
    return address


def is_secure(rules: ForwardRules, headers: Sequence[tuple[bytes, bytes]], address: str) -> bool:
    """Return whether a trusted proxy says that its client came by https."""
    if not rules.trusts(address):
        return False
    return any(
        name == b"x-forwarded-proto" and value.strip().lower() == b"https"
        for name, value in headers
    )
