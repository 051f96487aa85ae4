"""Checks a request against its row of the rights table, and passes the caller to handlers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from queenmq.auth.decision import check_csrf, check_queue, check_right
from queenmq.auth.identity import Identity, Verb
from queenmq.auth.rights import Reach, Right
from queenmq.server.auth.credentials import CSRF_HEADER
from queenmq.server.edge.exchange import Exchange
from queenmq.server.requests.queries import parse_query


def check_caller(exchange: Exchange, right: Right) -> None:
    """Check everything that depends on the head of a request. Raises the refusal."""
    identity = exchange.identity
    check_right(identity, right)
    if identity.is_ambient:
        check_csrf(identity, right, exchange.head.get(CSRF_HEADER))
    if identity.is_limited and right.reach is Reach.QUERY:
        check_queue(identity, parse_query(exchange.head.query).get("queue"))


def check_path(exchange: Exchange, right: Right, params: Mapping[str, Any]) -> None:
    """Check the queue that a path names."""
    if right.reach is Reach.PATH:
        check_queue(exchange.identity, params.get("queue"))


def identity_of(request: Request) -> Identity:
    """Return the caller of a request that runs on Starlette."""
    exchange: Exchange = request.scope["exchange"]
    return exchange.identity


def may_read_messages(request: Request) -> bool:
    """Return whether an answer may show what messages contain and what consumers wrote of them.

    For routes that serve monitoring as well: they leave those texts out for other callers.
    """
    return identity_of(request).has_verb(Verb.POP)
