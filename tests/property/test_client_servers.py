"""Laws of the choice of a server, over random failures and recoveries."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import given

from queenmq.client.http.servers import Servers, Strategy

URLS = [f"http://queen-{number}:6632" for number in range(5)]
strategies = st.sampled_from(["affinity", "round-robin", "session"])
keys = st.none() | st.text(min_size=1)
#: Which server failed or answered, and how many seconds after the event before.
events = st.lists(st.tuples(st.sampled_from(URLS), st.booleans(), st.floats(0, 30)))


def make(strategy: Strategy = "affinity", urls: list[str] = URLS) -> Servers:
    return Servers(urls, strategy=strategy, session="s", out_s=1.0)


@given(strategy=strategies, key=keys, history=events, tried=st.sets(st.sampled_from(URLS)))
def test_there_is_always_a_server_and_a_healthy_fresh_one_if_there_is_any(
    strategy: Strategy, key: str | None, history: list[tuple[str, bool, float]], tried: set[str]
) -> None:
    servers, now = make(strategy), 0.0
    failures, out_until = Counter[str](), dict.fromkeys(URLS, 0.0)
    for url, is_well, seconds in history:
        now += seconds
        servers.note_success(url) if is_well else servers.note_failure(url, now=now)
        failures[url] = 0 if is_well else failures[url] + 1
        # A second, and twice as long after each further failure, but a minute at most.
        out_until[url] = 0.0 if is_well else now + min(2.0 ** (failures[url] - 1), 60.0)
    chosen = servers.choose(key, now=now, tried=tried)
    assert chosen in URLS
    fresh = [url for url in URLS if url not in tried] or URLS
    assert chosen in fresh
    if any(out_until[url] <= now for url in fresh):
        assert out_until[chosen] <= now


@given(key=st.text(min_size=1), gone=st.sampled_from(URLS))
def test_only_the_keys_of_a_server_that_failed_move(key: str, gone: str) -> None:
    servers = make()
    before = servers.choose(key, now=0.0)
    assert servers.choose(key, now=0.0) == before
    servers.note_failure(gone, now=0.0)
    after = servers.choose(key, now=0.5)
    assert after == before if before != gone else after != gone
    # Its time is over: the key comes home.
    assert servers.choose(key, now=1.5) == before


def is_in_turn(servers: Servers, *, now: float) -> bool:
    """Return whether the first server gets its share of keys, while the others are healthy."""
    return URLS[0] in {servers.choose(f"{number}", now=now) for number in range(50)}


@given(failures=st.integers(1, 100))
def test_a_server_is_left_out_longer_each_time_but_not_for_ever(failures: int) -> None:
    servers, now, last = make(), 0.0, 0.0
    for _ in range(failures):
        servers.note_failure(URLS[0], now=now)
        out = next(s for s in (2.0**n for n in range(-1, 7)) if is_in_turn(servers, now=now + s))
        assert last <= out <= 64.0
        last = out
    servers.note_success(URLS[0])
    assert is_in_turn(servers, now=now)


def test_keys_spread_over_all_servers_wherever_a_client_lists_them() -> None:
    servers, turned = make(), make(urls=URLS[::-1])
    chosen = [servers.choose(f"queue-{n}:*:g", now=0.0) for n in range(1000)]
    assert chosen == [turned.choose(f"queue-{n}:*:g", now=0.0) for n in range(1000)]
    assert min(Counter(chosen).values()) > 100


def test_turns_go_round_and_a_session_stays() -> None:
    servers = make("round-robin")
    assert Counter(servers.choose("k", now=0.0) for _ in range(10)) == dict.fromkeys(URLS, 2)
    session = make("session")
    assert len({session.choose(f"{n}", now=0.0) for n in range(50)}) == 1


@pytest.mark.parametrize("urls", [[], ["queen:6632"], ["ftp://queen"]])
def test_bad_urls_are_refused(urls: list[str]) -> None:
    with pytest.raises(ValueError, match="http://"):
        make(urls=urls)
    with pytest.raises(ValueError, match="affinity"):
        make("random")  # type: ignore[arg-type]
