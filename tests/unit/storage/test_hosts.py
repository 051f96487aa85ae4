"""Parsing of database URLs, and the errors of useless ones."""

from __future__ import annotations

import pytest

from queenmq.errors import SettingsError
from queenmq.storage.connection.hosts import Host, parse_url

ONE = "postgresql://queen:secret@one:5433/app"


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://", [Host(None, None)]),
        ("postgresql:///queen?port=5433", [Host(None, 5433)]),
        ("postgres://one/queen", [Host("one", None)]),
        (ONE, [Host("one", 5433)]),
        ("postgresql://u@[::1]:5433/q", [Host("::1", 5433)]),
        ("postgresql://u@[::1]/q", [Host("::1", None)]),
        ("postgresql://one:1,two,three:3/q", [Host("one", 1), Host("two", None), Host("three", 3)]),
        ("postgresql://one,two:2/q?port=7", [Host("one", 7), Host("two", 2)]),
        ("postgresql:///q?host=one,two&port=1,2", [Host("one", 1), Host("two", 2)]),
        ("postgresql://u@/q?host=/run/pg&port=5433", [Host("/run/pg", 5433)]),
        ("postgresql://%2Frun%2Fpg/q", [Host("/run/pg", None)]),
    ],
)
def test_hosts_of_a_url(url: str, hosts: list[Host]) -> None:
    assert list(parse_url(url).hosts) == hosts


def test_several_hosts_are_asked_for_one_that_takes_writes() -> None:
    assert parse_url(ONE).target == "any"
    assert parse_url("postgresql://one,two/q").target == "read-write"
    assert parse_url("postgresql://one,two/q?target_session_attrs=any").target == "any"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://queen:secret@one/app", ["starts with mysql:", "postgresql://"]),
        ("http://queen:secret@one:5432", ["starts with http:"]),
        ("one:5432/app?password=secret", ["postgresql://"]),
        ("host=one password=secret", ["has no scheme"]),
        ("postgresql://queen:se@cret@one/app", ["@", "%40"]),
        ("postgresql://queen:secret@one:54x/app", ["54x", "65535"]),
        ("postgresql://queen:secret@one:0/app", ["'0'"]),
        ("postgresql://queen:secret@:5432/app", ["no host"]),
        ("postgresql://queen:secret@[::1/app", ["cannot be read"]),
        ("postgresql://queen:secret@one/app?sslmode", ["cannot be read"]),
        ("postgresql://q:secret@a,b,c/app?port=1,2", ["3 hosts", "2 ports"]),
        ("postgresql://q:secret@a/b?target_session_attrs=master", ["'master'", "read-write"]),
    ],
)
def test_useless_url_is_refused_without_its_password(url: str, words: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_url(url)
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "secret" not in text and "cret" not in text
