"""Servers that the database may be copied to: nothing but what is listed."""

from __future__ import annotations

import pytest

from queenmq.auth.targets import parse_targets
from queenmq.errors import Forbidden, SettingsError


def allows(listed: str, host: str, port: str | int = "5432") -> bool:
    try:
        parse_targets(listed).check(host, port)
    except Forbidden:
        return False
    return True


@pytest.mark.parametrize("listed", ["", " , ", "db.example"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "/run/postgresql", "10.0.0.5"])
def test_nothing_is_allowed_that_is_not_listed(listed: str, host: str) -> None:
    assert not allows(listed, host)


@pytest.mark.parametrize(
    ("listed", "host", "port"),
    [
        ("db.example", "db.example", "5432"),
        ("other, db.example", "DB.Example", 5432),
        ("db.example:5433", "db.example", "05433"),
        ("db.example:*", "db.example", 1),
        ("*.example", "a.b.example", 5432),
        ("*:*", "anything", 9),
        ("10.0.0.5", "10.0.0.5", 5432),
        ("[::1]:5433", "0:0::1", 5433),
        ("[::1]", "::1", 5432),
        ("/run/postgresql", "/run/postgresql", 5432),
        ("/run/postgresql:*", "/run/postgresql", 7),
    ],
)
def test_what_is_listed_is_allowed(listed: str, host: str, port: str | int) -> None:
    assert allows(listed, host, port)


@pytest.mark.parametrize(
    ("listed", "host", "port"),
    [
        ("db.example", "db.example", 22),
        ("db.example:5433", "db.example", 5432),
        ("*", "db.example", 22),
        ("*.example", "example", 5432),
        ("*.example", "badexample", 5432),
        ("10.0.0.5", "10.0.0.50", 5432),
        ("10.0.0.5", "010.0.0.5", 5432),
        ("10.0.0.5", "::ffff:10.0.0.5", 5432),
        ("/run/postgresql", "/run/postgresql/../other", 5432),
    ],
)
def test_what_only_looks_like_it_is_refused(listed: str, host: str, port: int) -> None:
    assert not allows(listed, host, port)


@pytest.mark.parametrize(
    "listed",
    [
        "db.example:0", "db.example:65536", "db.example:x", "::1", "10.*", "db.*.example", "a b",
        "postgresql://db.example", "user@db.example", "[::1", "run/postgresql",
    ],
)  # fmt: skip
def test_entries_that_mean_nothing_stop_the_start(listed: str) -> None:
    # A star at the end of an address would match names, and whoever owns such a name.
    with pytest.raises(SettingsError, match="move_targets has"):
        parse_targets(f"db.example, {listed}")


def test_the_refusal_says_what_to_do() -> None:
    with pytest.raises(
        Forbidden, match=r"'db.example', port 22.*QUEEN_MOVE_TARGETS.*queen db move"
    ):
        parse_targets("").check("db.example", "22")
