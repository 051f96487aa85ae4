"""Decides which of several servers to use. Pure.

Each server reports its state: standby or not, read-only or not, and its timeline, a number that
every promotion raises. If two servers of a cluster both accept writes, the one on the higher
timeline is the primary. The other one is the former primary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from queenmq.errors import StorageUnavailable
from queenmq.storage.connection.hosts import DatabaseUrl, Host

#: Hosts that have not answered are waited for this long once one can be used ...
_GRACE_MS = 500.0
#: ... and this long if no timeline is known yet, because a slow host may be the newer primary.
_FIRST_GRACE_MS = 2_000.0
_NO_PRIMARY = "no_primary"


class ServerState(NamedTuple):
    """A server's report about itself. A timeline of 0 is unknown, as on a standby."""

    system: int
    timeline: int
    is_standby: bool
    is_read_only: bool


class Server(NamedTuple):
    """The server behind a connection."""

    host: Host
    state: ServerState


#: The reply of each host: its state, or the error.
Answers = Mapping[Host, ServerState | StorageUnavailable]


def is_usable(state: ServerState, target: str) -> bool:
    """Return whether a server in this state matches the URL."""
    if target == "read-write":
        return not state.is_standby and not state.is_read_only
    if target == "primary":
        return not state.is_standby
    if target == "read-only":
        return state.is_standby or state.is_read_only
    if target == "standby":
        return state.is_standby
    return True


def is_newer(state: ServerState, than: ServerState | None) -> bool:
    """Return whether a promotion lies between the two, so that `state` is the primary."""
    if than is None:
        return state.timeline > 0
    return state.system == than.system and state.timeline > than.timeline


def is_outdated(state: ServerState, newest: ServerState | None) -> bool:
    """Return whether another server of the cluster was promoted after this one."""
    return newest is not None and state.timeline > 0 and is_newer(newest, state)


def choose(states: Mapping[Host, ServerState], hosts: Sequence[Host], target: str) -> Host | None:
    """Return the best of the hosts that have answered: the newest primary, else the first in the
    URL.
    """
    usable = [host for host in hosts if host in states and is_usable(states[host], target)]
    if target == "prefer-standby":
        usable.sort(key=lambda host: not states[host].is_standby)
    elif target in ("read-write", "primary"):
        usable.sort(key=lambda host: -states[host].timeline)
    return usable[0] if usable else None


def decide(
    url: DatabaseUrl, answers: Answers, newest: ServerState | None, *, waited_ms: float
) -> Server | None:
    """Return the server to use, or None when more answers are needed first.

    `waited_ms` counts from the first answer of a server that can be used.
    """
    states = {
        host: answer
        for host, answer in answers.items()
        if isinstance(answer, ServerState) and not is_outdated(answer, newest)
    }
    host = choose(states, url.hosts, url.target)
    if host is None:
        return None
    is_complete = len(answers) == len(url.hosts)
    is_promoted = newest is not None and is_newer(states[host], newest)
    grace_ms = _FIRST_GRACE_MS if newest is None else _GRACE_MS
    if is_complete or is_promoted or waited_ms >= grace_ms:
        return Server(host, states[host])
    return None


def find_refusal(
    url: DatabaseUrl, server: Server, newest: ServerState | None
) -> StorageUnavailable | None:
    """Return why this server cannot be used, or None if it can."""
    host, state = server
    if newest is not None and is_outdated(state, newest):
        return make_no_primary(
            f"{host} is on timeline {state.timeline}, but the primary was on timeline"
            f" {newest.timeline} since; make it a standby, or restart the broker to use it"
        )
    if not is_usable(state, url.target):
        kind = "standby" if state.is_standby else "read-only" if state.is_read_only else "primary"
        return make_no_primary(f"{host} is {kind}, but the database URL asks for {url.target}")
    return None


def has_usable(url: DatabaseUrl, answers: Answers, newest: ServerState | None) -> bool:
    """Return whether any server that has answered can be used."""
    return any(
        isinstance(answer, ServerState) and find_refusal(url, Server(host, answer), newest) is None
        for host, answer in answers.items()
    )


def merge_refusals(
    url: DatabaseUrl, answers: Answers, newest: ServerState | None
) -> StorageUnavailable:
    """Return one error for several unusable hosts."""
    errors = []
    for host, answer in answers.items():
        if isinstance(answer, ServerState):
            answer = find_refusal(url, Server(host, answer), newest) or make_no_primary(
                f"{host} is new"
            )
        errors.append(answer)
    # A standby is normal. The errors of the other hosts matter more.
    worst = min(errors, key=lambda error: error.reason == _NO_PRIMARY)
    parts = [str(error).removesuffix("; try again") for error in errors]
    return type(worst)(
        "; ".join([*parts, "try again"]),
        public=worst.public,
        reason=worst.reason,
        is_suspicious=worst.is_suspicious,
    )


def make_no_primary(text: str) -> StorageUnavailable:
    """Return the error for a server that answers but must not be used."""
    return StorageUnavailable(
        f"{text}; try again",
        public="the database has no primary now; try again",
        reason=_NO_PRIMARY,
    )
