"""The keys and rules that a JWT is checked against.

Apart from `jwt_check`, so that a broker without authentication never loads the cryptography.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from queenmq.errors import SettingsError, Unauthenticated

ALGORITHMS = ("HS256", "RS256", "ES256", "EdDSA")
#: RFC 7518 asks for a secret as long as the hash.
SECRET_BYTES_MIN = 32


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    """A key, the one algorithm it is used with, and its name in a key set."""

    algorithm: str
    key: Any
    kid: str | None = None


@dataclass(frozen=True, slots=True)
class JwtRules:
    """The claims that a token needs besides a good signature."""

    issuer: str | None = None
    audience: str | None = None
    skew_s: float = 30.0
    requires_exp: bool = True


class UnknownKey(Unauthenticated):
    """No key at hand fits the token. A newer key set may have it."""


def secret_key(secret: str) -> Key:
    """Return the key of a shared secret."""
    if len(secret.encode()) < SECRET_BYTES_MIN:
        raise SettingsError(
            f"jwt_secret has {len(secret.encode())} bytes;"
            f" use at least {SECRET_BYTES_MIN}. Make one with: openssl rand -hex 32"
        )
    return Key("HS256", secret.encode())
