"""Decides whether a caller may use a route. Raises the refusal, or returns nothing."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from queenmq.auth.identity import Identity, Kind, Verb
from queenmq.auth.rights import Reach, Right
from queenmq.errors import Forbidden, Unauthenticated

REQUIRED = "Authentication required"
_DENIED = "Insufficient permissions"


def check_right(identity: Identity, right: Right) -> None:
    """Check role, verb, and whether a limited token may use the route at all."""
    if right.role is None:
        return
    role = identity.role
    if role is None:
        if identity.kind is Kind.STRANGER:
            raise Unauthenticated(identity.reason or REQUIRED)
        raise Forbidden(f"{_DENIED}: the token names no role. Use one with a role claim.")
    if role < right.role:
        raise Forbidden(
            f"{_DENIED}: this needs the role {right.role.label}, the token has {role.label}."
        )
    if right.verb is not None:
        check_verb(identity, right.verb)
    if identity.is_limited and right.reach is Reach.ALL:
        raise Forbidden(
            f"{_DENIED}: this request covers all queues, and the token is limited to some."
            " Name a queue where the route allows it, or use another token."
        )


def check_verb(identity: Identity, verb: Verb) -> None:
    """Check one verb of the grants."""
    if not identity.has_verb(verb):
        raise Forbidden(f"{_DENIED}: the token does not include the verb {verb.value}.")


def check_queue(identity: Identity, queue: str | None) -> None:
    """Check that a queue is within the grants; whether it exists makes no difference."""
    if not identity.is_limited:
        return
    if not queue:
        raise Forbidden(
            f"{_DENIED}: the token is limited to some queues. Name one of them as queue."
        )
    if not identity.reaches(queue):
        raise Forbidden(f"{_DENIED}: the token does not include queue {queue[:60]!r}.")


def check_queues(identity: Identity, queues: Iterable[str]) -> None:
    """Check that all these queues are within the grants."""
    if identity.is_limited:
        for queue in queues:
            check_queue(identity, queue)


def check_csrf(identity: Identity, right: Right, header: bytes | None) -> None:
    """Check that a change by cookie or proxy was meant by a page of ours.

    A page of another site can have a browser send a request with its cookie, but not with this
    header. A session has a value of its own for it; behind a proxy any value will do.
    """
    if not right.is_change or not identity.is_ambient:
        return
    given = header or b""
    expected = identity.csrf
    if not given or (
        expected is not None and not hmac.compare_digest(given, expected.encode("ascii"))
    ):
        raise Forbidden(
            "The X-Queen-CSRF header is missing or wrong. Send the csrfToken of GET /api/me."
        )
