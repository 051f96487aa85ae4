"""The choice among several servers by their own reports."""

from __future__ import annotations

import pytest

from queenmq.errors import StorageUnavailable
from queenmq.storage.connection.hosts import Host, parse_url
from queenmq.storage.connection.server_choice import (
    Server,
    ServerState,
    decide,
    find_refusal,
    is_newer,
    is_outdated,
    merge_refusals,
)

ONE, TWO = Host("one", None), Host("two", None)
BOTH = parse_url("postgresql://one,two/queen")


def primary(timeline: int, system: int = 7) -> ServerState:
    return ServerState(system, timeline, is_standby=False, is_read_only=False)


STANDBY = ServerState(7, 0, is_standby=True, is_read_only=True)
READ_ONLY = ServerState(7, 1, is_standby=False, is_read_only=True)
SILENT = StorageUnavailable("one does not answer; try again", reason="no_answer")


def test_newer_is_what_was_promoted_later() -> None:
    assert is_newer(primary(2), primary(1)) and not is_newer(primary(1), primary(1))
    assert is_outdated(primary(1), primary(2)) and not is_outdated(primary(2), primary(1))
    assert not is_newer(primary(2, system=8), primary(1)), "another cluster"
    assert not is_outdated(primary(1, system=8), primary(2)), "another cluster"
    assert not is_outdated(STANDBY, primary(2)), "a standby has no timeline"


@pytest.mark.parametrize(
    ("target", "first", "second", "chosen"),
    [
        ("read-write", STANDBY, primary(1), TWO),
        ("read-write", READ_ONLY, primary(1), TWO),
        ("read-write", primary(1), primary(2), TWO),
        ("read-write", primary(2), primary(1), ONE),
        ("read-write", primary(1), primary(1), ONE),
        ("read-write", STANDBY, READ_ONLY, None),
        ("primary", STANDBY, READ_ONLY, TWO),
        ("any", STANDBY, primary(1), ONE),
        ("standby", primary(1), STANDBY, TWO),
        ("standby", primary(1), primary(1), None),
        ("read-only", primary(1), READ_ONLY, TWO),
        ("prefer-standby", primary(1), STANDBY, TWO),
        ("prefer-standby", primary(1), primary(1), ONE),
    ],
)
def test_choice_by_target(
    target: str, first: ServerState, second: ServerState, chosen: Host | None
) -> None:
    url = parse_url(f"postgresql://one,two/queen?target_session_attrs={target}")
    server = decide(url, {ONE: first, TWO: second}, None, waited_ms=0)
    assert (server.host if server else None) == chosen


def test_first_choice_waits_for_the_other_hosts() -> None:
    # The one that answers first may be an old primary that came back.
    assert decide(BOTH, {ONE: primary(1)}, None, waited_ms=1_000) is None
    assert decide(BOTH, {ONE: primary(1)}, None, waited_ms=2_000) == Server(ONE, primary(1))
    both = {ONE: primary(1), TWO: SILENT}
    assert decide(BOTH, both, None, waited_ms=0) == Server(ONE, primary(1))


def test_known_primary_waits_less_and_a_promoted_one_not_at_all() -> None:
    assert decide(BOTH, {ONE: primary(1)}, primary(1), waited_ms=0) is None
    assert decide(BOTH, {ONE: primary(1)}, primary(1), waited_ms=500) is not None
    assert decide(BOTH, {TWO: primary(2)}, primary(1), waited_ms=0) == Server(TWO, primary(2))


def test_primary_of_the_past_is_never_chosen() -> None:
    assert decide(BOTH, {ONE: primary(1), TWO: SILENT}, primary(2), waited_ms=1e9) is None
    refusal = find_refusal(BOTH, Server(ONE, primary(1)), primary(2))
    assert refusal is not None
    assert "timeline 1" in str(refusal) and "timeline 2" in str(refusal)
    assert "one" not in refusal.public.split()


def test_refusals_of_all_hosts_become_one_error() -> None:
    error = merge_refusals(BOTH, {ONE: SILENT, TWO: STANDBY}, None)
    assert str(error) == (
        "one does not answer; two is standby, but the database URL asks for read-write; try again"
    )
    assert error.reason == "no_answer", "a standby is as it should be"
