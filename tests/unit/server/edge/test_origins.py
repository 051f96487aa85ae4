"""The web pages that may use a server through a browser."""

from __future__ import annotations

import pytest

from queenmq.server.edge.head import Head, HeadLimits, parse_head
from queenmq.server.edge.origins import OriginRules, is_loopback, make_judge
from queenmq.server.edge.refusal import Refused

LIMITS = HeadLimits(65_536, 1_000, 1_000, 100, 1_000)


#: What a browser adds when somebody follows a link.
VISIT = ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")


def head(*lines: str, host: str = "localhost:6632", method: str = "GET", path: str = "/a") -> Head:
    text = "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *lines, "", ""])
    return parse_head(text.encode(), LIMITS)


def is_allowed(rules: OriginRules, one: Head) -> bool:
    try:
        make_judge(rules)(one)
    except Refused as error:
        assert error.status == 403
        return False
    return True


@pytest.mark.parametrize(
    ("lines", "allowed"),
    [
        ((), True),
        (("Origin: http://localhost:6632",), True),
        (("Origin: http://localhost:3000",), False),
        (("Origin: https://evil.example",), False),
        (("Origin: null",), False),
        (("Sec-Fetch-Site: same-origin",), True),
        (("Sec-Fetch-Site: none",), True),
        (("Sec-Fetch-Site: cross-site",), False),
        (("Sec-Fetch-Site: same-site",), False),
        (("Sec-Fetch-Site: cross-site", *VISIT), True),
        (("Sec-Fetch-Site: cross-site", VISIT[0], "Sec-Fetch-Dest: iframe"), False),
    ],
)
def test_a_foreign_page_is_refused(lines: tuple[str, ...], allowed: bool) -> None:
    assert is_allowed(OriginRules(), head(*lines)) is allowed


def test_a_link_may_be_followed_but_a_form_not_sent() -> None:
    lines = ("Sec-Fetch-Site: cross-site", *VISIT)
    assert not is_allowed(OriginRules(), head(*lines, method="POST"))


def test_a_link_cannot_pop() -> None:
    pop = head("Sec-Fetch-Site: cross-site", *VISIT, path="/api/v1/pop/queue/q")
    assert not is_allowed(OriginRules(), pop)


def test_a_listed_page_is_allowed_and_may_read_answers() -> None:
    rules = OriginRules(cors_origins=("https://board.example",))
    lines = ("Origin: https://board.example", "Sec-Fetch-Site: cross-site")
    extra = dict(make_judge(rules)(head(*lines, method="OPTIONS")))
    assert extra[b"access-control-allow-origin"] == b"https://board.example"
    assert extra[b"vary"] == b"Origin"
    assert not is_allowed(rules, head("Origin: https://board.example.evil"))
    assert make_judge(rules)(head()) == ()


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("localhost", True),
        ("LOCALHOST:80", True),
        ("a.localhost:1", True),
        ("127.0.0.1:6632", True),
        ("[::1]:6632", True),
        ("10.0.0.7", True),
        ("queen.internal", True),
        ("queen.internal.:1", True),
        ("evil.example:6632", False),
        ("queen.internal.evil.example", False),
    ],
)
def test_only_names_of_the_server_are_hosts(host: str, allowed: bool) -> None:
    assert is_allowed(OriginRules(allowed_hosts=("queen.internal",)), head(host=host)) is allowed


def test_a_server_without_names_of_its_own_takes_every_host() -> None:
    assert is_allowed(OriginRules(allowed_hosts=None), head(host="evil.example"))


@pytest.mark.parametrize(
    ("address", "loopback"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("queen.example", False)],
)  # fmt: skip
def test_loopback_addresses_are_known(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback
