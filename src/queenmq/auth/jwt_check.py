"""Verifies a JWT with keys that are at hand.

A key is bound to one algorithm when it is read from the configuration or a key set. The token's
header only chooses among those pairs, so no token can have an RSA key used as an HMAC secret, or
name an algorithm that is not configured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from queenmq.auth.jwt_rules import JwtRules, Key, UnknownKey
from queenmq.errors import SettingsError, Unauthenticated

_RSA_BITS_MIN = 2_048
#: Longer tokens are refused unread.
TOKEN_BYTES_MAX = 8_192


def public_key(pem: str) -> Key:
    """Return the key of a PEM text; its type decides the algorithm."""
    try:
        key = load_pem_public_key(pem.replace("\\n", "\n").encode())
    except ValueError:
        raise SettingsError(
            "jwt_public_key is not a public key in PEM;"
            " use one that begins with -----BEGIN PUBLIC KEY-----"
        ) from None
    algorithm = _algorithm_of(key)
    if algorithm is None:
        raise SettingsError(
            "jwt_public_key has an unsupported type; use RSA of 2048 bits or more,"
            " EC P-256 or Ed25519"
        )
    return Key(algorithm, key)


def read_key_set(document: Mapping[str, Any], algorithms: Sequence[str]) -> list[Key]:
    """Return the keys of a JWKS document that can verify signatures by these algorithms."""
    keys = []
    for entry in document.get("keys", ()):
        if not isinstance(entry, Mapping) or entry.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK.from_dict(dict(entry)).key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue
        algorithm = _algorithm_of(key)
        # A symmetric key in a public document protects nothing; _algorithm_of knows none.
        if algorithm in algorithms and entry.get("alg", algorithm) == algorithm:
            kid = entry.get("kid")
            keys.append(Key(str(algorithm), key, kid if isinstance(kid, str) else None))
    return keys


def _algorithm_of(key: Any) -> str | None:
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= _RSA_BITS_MIN:
        return "RS256"
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return "ES256"
    if isinstance(key, ed25519.Ed25519PublicKey):
        return "EdDSA"
    return None


def verify(
    token: str, keys: Sequence[Key], rules: JwtRules, *, now_s: float
) -> tuple[dict[str, Any], float]:
    """Return the claims of a good token and when it ends.

    Raise UnknownKey when another key might fit, Unauthenticated for every other fault.
    """
    if len(token) > TOKEN_BYTES_MAX:
        raise Unauthenticated(f"The token is longer than {TOKEN_BYTES_MAX} bytes. Use another one.")
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise Unauthenticated(
            "The token is neither a JWT nor a token of this server. Use another one."
        ) from None
    claims = _decode(token, _candidates(header, keys), rules)
    return claims, _check_times(claims, rules, now_s)


def _candidates(header: Mapping[str, Any], keys: Sequence[Key]) -> list[Key]:
    kid, algorithm = header.get("kid"), header.get("alg")
    fitting = [
        key
        for key in keys
        if key.algorithm == algorithm and (key.kid is None or kid is None or key.kid == kid)
    ]
    if not fitting:
        raise UnknownKey("The token was signed by a key or algorithm that is not configured here.")
    return fitting


def _decode(token: str, keys: Sequence[Key], rules: JwtRules) -> dict[str, Any]:
    for key in keys:
        try:
            return jwt.decode(
                token,
                key=key.key,
                algorithms=[key.algorithm],
                issuer=rules.issuer,
                audience=rules.audience,
                options={
                    # The times are checked by our own clock, see _check_times.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_aud": rules.audience is not None,
                    "verify_iss": rules.issuer is not None,
                },
            )
        except jwt.InvalidSignatureError:
            continue
        except (jwt.InvalidIssuerError, jwt.InvalidAudienceError) as error:
            raise Unauthenticated(f"The token is not for this server: {error}.") from None
        except jwt.PyJWTError as error:
            raise Unauthenticated(f"The token cannot be used: {error}.") from None
    raise UnknownKey("The token's signature is wrong. Get a new token.")


def _check_times(claims: Mapping[str, Any], rules: JwtRules, now_s: float) -> float:
    """Return when the token ends, the skew of clocks included."""
    expires = _time(claims, "exp")
    if expires is None:
        if rules.requires_exp:
            raise Unauthenticated("The token has no exp. Use one that expires.")
        expires = math.inf
    elif now_s > expires + rules.skew_s:
        raise Unauthenticated("The token has expired. Get a new one.")
    begins = _time(claims, "nbf")
    if begins is not None and now_s < begins - rules.skew_s:
        raise Unauthenticated("The token is not valid yet. Wait, or check the clocks.")
    return expires + rules.skew_s


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    try:
        is_time = isinstance(value, int | float) and not isinstance(value, bool)
        if is_time and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise Unauthenticated(f"The token's {name} is not a time. Use another token.")
