"""The caller of a request: a subject, a role, and grants that narrow the role."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from queenmq.auth.patterns import NamePatterns


class Role(enum.IntEnum):
    """The rights of a caller. Each role includes those before it."""

    READ_ONLY = 1
    READ_WRITE = 2
    ADMIN = 3

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")


ROLES = {role.label: role for role in Role}


class Verb(enum.StrEnum):
    """An action that a limited token may take on its queues."""

    PUSH = "push"
    #: Pop, ack and read messages.
    POP = "pop"
    #: Configure, delete, seek and repair.
    ADMIN = "admin"


class Kind(enum.StrEnum):
    """The way in which a caller was recognised."""

    ANONYMOUS = "anonymous"
    STRANGER = "stranger"
    JWT = "jwt"
    TOKEN = "token"  # noqa: S105 - the name of a kind
    SESSION = "session"
    PROXY = "proxy"


@dataclass(frozen=True, slots=True)
class Grants:
    """Queues by name pattern and verbs; None limits nothing."""

    queues: NamePatterns | None = None
    verbs: frozenset[Verb] | None = None


EVERYTHING = Grants()


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """A caller. Without a role it may use public routes only."""

    #: Stored with every message that it pushes; None without authentication.
    subject: str | None
    role: Role | None
    kind: Kind
    grants: Grants = EVERYTHING
    #: Of the API token or session; None for the other kinds.
    token_id: str | None = None
    #: Seconds since 1970 after which it has to be verified again.
    expires_s: float = float("inf")
    #: Why there is no role, for the answer.
    reason: str = ""
    #: What a browser must send along with its cookie to change something.
    csrf: str | None = None
    is_limited: bool = field(init=False)
    #: Whether a browser adds the credential by itself, even for a page of another site.
    is_ambient: bool = field(init=False)
    #: Whether its token was revoked after the caller was recognised.
    is_revoked: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_limited", self.grants.queues is not None)
        object.__setattr__(self, "is_ambient", self.kind in (Kind.SESSION, Kind.PROXY))

    @property
    def key_owner(self) -> str | tuple[str, ...] | None:
        """Return whom its idempotency keys belong to. Two tenants differ by their queues even where
        their tokens name no subject.
        """
        if self.subject is None and self.grants.queues is not None:
            return self.grants.queues.texts
        return self.subject

    def revoke(self) -> None:
        """Note the one thing about a caller that can change: requests that wait must not go on."""
        object.__setattr__(self, "is_revoked", True)

    def is_over(self, now_s: float) -> bool:
        """Return whether the caller may not be served any more."""
        return self.is_revoked or now_s >= self.expires_s

    def reaches(self, queue: str) -> bool:
        """Return whether the grants include a queue of this name."""
        patterns = self.grants.queues
        return patterns is None or patterns.match(queue)

    def reaches_all(self, queues: Iterable[str]) -> bool:
        """Return whether the grants include every one of these names."""
        return all(self.reaches(queue) for queue in queues)

    def has_verb(self, verb: Verb) -> bool:
        """Return whether the grants include the verb."""
        verbs = self.grants.verbs
        return verbs is None or verb in verbs


#: Everybody, where authentication is off.
ANONYMOUS = Identity(None, Role.ADMIN, Kind.ANONYMOUS)
#: A visitor of a route that the settings have opened.
VISITOR = Identity(None, Role.READ_ONLY, Kind.ANONYMOUS)


def stranger(reason: str) -> Identity:
    """Return a caller that was not recognised, and why."""
    return Identity(None, None, Kind.STRANGER, reason=reason)


#: For a request whose caller is not known yet.
NOBODY = stranger("Authentication required")
