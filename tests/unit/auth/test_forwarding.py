"""A proxy's word counts only if the proxy is one that was configured."""

from __future__ import annotations

import pytest

from queenmq.auth.forwarding import (
    ForwardRules,
    client_address,
    is_secure,
    parse_networks,
    read_user,
)
from queenmq.auth.identity import Role
from queenmq.errors import SettingsError

RULES = ForwardRules(parse_networks("10.0.0.0/8, ::1"))
USER = (b"x-forwarded-user", b"ada")


@pytest.mark.parametrize(
    ("address", "is_trusted"),
    [("10.1.2.3", True), ("11.1.2.3", False), ("::1", True), ("::2", False), ("", False),
     ("::ffff:10.1.2.3", True), ("localhost", False)],
)  # fmt: skip
def test_only_configured_addresses_are_trusted(address: str, is_trusted: bool) -> None:
    assert RULES.trusts(address) == is_trusted
    assert (read_user(RULES, [USER], address) is not None) == is_trusted
    assert is_secure(RULES, [(b"x-forwarded-proto", b"https")], address) == is_trusted


def test_the_highest_role_counts_and_other_groups_do_not() -> None:
    def role(*groups: bytes) -> Role | None:
        headers = [USER, *((b"x-forwarded-groups", one) for one in groups)]
        user = read_user(RULES, headers, "10.0.0.1")
        assert user is not None
        return user.role

    assert role(b"staff, read-write, read-only") is Role.READ_WRITE
    assert role(b"staff") is None
    assert role() is None


@pytest.mark.parametrize("values", [[b"ada", b"root"], [b""], [b"x" * 300], [b" "]],
                         ids=["two", "empty", "long", "blank"])  # fmt: skip
def test_a_user_that_is_not_exactly_one_is_none(values: list[bytes]) -> None:
    headers = [(b"x-forwarded-user", value) for value in values]
    assert read_user(RULES, headers, "10.0.0.1") is None


def test_the_client_is_the_last_address_that_no_trusted_proxy_has() -> None:
    def found(hops: bytes, address: str = "10.0.0.1") -> str:
        return client_address(RULES, [(b"x-forwarded-for", hops)], address)

    assert found(b"1.1.1.1, 2.2.2.2, 10.9.9.9") == "2.2.2.2"
    assert found(b"10.1.1.1") == "10.0.0.1"
    assert found(b"1.1.1.1", "8.8.8.8") == "8.8.8.8"


@pytest.mark.parametrize("text", ["x", "10.0.0.1/8", "10.0.0.0/99"])
def test_networks_that_are_none_stop_the_start(text: str) -> None:
    with pytest.raises(SettingsError, match="trusted_proxies"):
        parse_networks(text)


def test_groups_that_came_twice_are_nobodys() -> None:
    # A proxy that adds its header lets that of the user through.
    headers = [USER, (b"x-forwarded-groups", b"admin"), (b"x-forwarded-groups", b"read-only")]
    assert read_user(RULES, headers, "10.0.0.1") is None
