"""API tokens and sessions: their text, their hash, and what a stored one means.

A token is 256 random bits, so a plain SHA-256 of it cannot be turned round or guessed; a slow hash
would only slow the broker down.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from queenmq.auth.identity import ROLES, Grants, Identity, Kind, Verb
from queenmq.auth.patterns import NamePatterns

#: What they begin with, so that people and scanners recognise them in a log or a repository.
PREFIXES = {Kind.TOKEN: "qmt_", Kind.SESSION: "qms_"}
#: Characters of a token that lists show.
SHOWN = 8


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token as the database knows it."""

    id: str
    kind: str
    subject: str | None
    role: str
    queues: Sequence[str] | None
    verbs: Sequence[str] | None
    #: Seconds since 1970.
    expires_s: float


def make_token(kind: Kind) -> str:
    """Return a new token. It is shown once and stored only as its hash."""
    return PREFIXES[kind] + secrets.token_urlsafe(32)


def kind_of(token: str) -> Kind | None:
    """Return which kind of ours a text claims to be, or None for a JWT or anything else."""
    return next((kind for kind, prefix in PREFIXES.items() if token.startswith(prefix)), None)


def hash_token(token: str) -> bytes:
    """Return what is stored in its place."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def csrf_of(session: str) -> str:
    """Return what a page must send beside the cookie; other sites cannot read either."""
    return hmac.new(session.encode("utf-8", "surrogateescape"), b"csrf", "sha256").hexdigest()


def read_stored(stored: StoredToken, *, csrf: str | None = None) -> Identity:
    """Return the caller that a stored token stands for."""
    return Identity(
        stored.subject,
        ROLES[stored.role],
        Kind(stored.kind),
        Grants(
            None if stored.queues is None else NamePatterns(stored.queues),
            None if stored.verbs is None else frozenset(Verb(verb) for verb in stored.verbs),
        ),
        token_id=stored.id,
        expires_s=stored.expires_s,
        csrf=csrf,
    )
