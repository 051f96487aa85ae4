"""From the claims of a verified JWT to an Identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from queenmq.auth.identity import Grants, Identity, Kind, Role, Verb
from queenmq.auth.patterns import check_patterns
from queenmq.errors import Unauthenticated

#: A longer subject cannot be stored with messages.
_SUBJECT_MAX = 255


@dataclass(frozen=True, slots=True)
class ClaimNames:
    """The names of the claims with role and grants, and the names of roles in them."""

    role: str = "role"
    roles: str = "roles"
    queues: str = "queen_queues"
    verbs: str = "queen_verbs"
    role_names: Mapping[str, Role] | None = None


def _is_storable(text: str) -> bool:
    """Return whether PostgreSQL can store the text: no NUL, no half of a surrogate pair."""
    try:
        return b"\x00" not in text.encode()
    except UnicodeEncodeError:
        return False


def read_claims(claims: Mapping[str, Any], names: ClaimNames, *, expires_s: float) -> Identity:
    """Return the caller. Raise Unauthenticated when a claim has a form that cannot be trusted."""
    subject = claims.get("sub")
    if subject is not None and not (isinstance(subject, str) and 0 < len(subject) <= _SUBJECT_MAX):
        raise Unauthenticated(
            f"The token's sub must be text of 1 to {_SUBJECT_MAX} characters. Use another token."
        )
    if subject is not None and not _is_storable(subject):
        raise Unauthenticated(
            "The token's sub has characters that are not valid text. Use another token."
        )
    return Identity(
        subject,
        _read_role(claims, names),
        Kind.JWT,
        _read_grants(claims, names),
        expires_s=expires_s,
    )


def _read_role(claims: Mapping[str, Any], names: ClaimNames) -> Role | None:
    """Return the highest role that the claims name; other words in them are not for us."""
    known = names.role_names or {role.label: role for role in Role}
    words = [*_words(claims.get(names.role)), *_words(claims.get(names.roles))]
    return max((known[word] for word in words if word in known), default=None)


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Sequence):
        return [word for word in value if isinstance(word, str)]
    return []


def _read_grants(claims: Mapping[str, Any], names: ClaimNames) -> Grants:
    """Return the grants. A claim that cannot be read refuses the token: it was meant as a limit."""
    queues = _limit(claims, names.queues)
    verbs = _limit(claims, names.verbs)
    try:
        return Grants(
            None if queues is None else check_patterns(queues),
            None if verbs is None else frozenset(Verb(word) for word in verbs),
        )
    except ValueError as error:
        raise Unauthenticated(f"The token's grants cannot be used: {error}") from None


def _limit(claims: Mapping[str, Any], name: str) -> list[str] | None:
    if name not in claims:
        return None
    value = claims[name]
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise Unauthenticated(f"The token's {name} must be a list of strings. Use another token.")
    return words
