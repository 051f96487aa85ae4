"""Tokens are good only with a configured key, by its own algorithm, for us, and in time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from queenmq.auth.jwt_check import public_key, read_key_set, verify
from queenmq.auth.jwt_rules import JwtRules, Key, UnknownKey, secret_key
from queenmq.errors import SettingsError, Unauthenticated

NOW = 1_000_000
SECRET = "0123456789abcdef0123456789abcdef"
PRIVATE: dict[str, Any] = {
    "RS256": rsa.generate_private_key(65_537, 2_048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
RULES = JwtRules(issuer="us", audience="queen", skew_s=30)


def _pem(algorithm: str) -> str:
    key = PRIVATE[algorithm].public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _jwk(algorithm: str, kid: str, **more: Any) -> dict[str, Any]:
    kind = jwt.get_algorithm_by_name(algorithm)
    document: dict[str, Any] = kind.to_jwk(PRIVATE[algorithm].public_key(), as_dict=True)
    return {**document, "kid": kid, **more}


def _token(algorithm: str = "HS256", key: Any = SECRET, kid: str | None = None, **more: Any) -> str:
    claims = {"sub": "s", "iss": "us", "aud": "queen", "exp": NOW + 60, **more}
    given = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(given, key, algorithm=algorithm, headers={"kid": kid} if kid else None)


def _check(token: str, *keys: Key, rules: JwtRules = RULES) -> dict[str, Any]:
    claims, _ = verify(token, keys or [secret_key(SECRET)], rules, now_s=NOW)
    return claims


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_public_keys_verify_by_their_own_algorithm(algorithm: str) -> None:
    token = _token(algorithm, PRIVATE[algorithm])
    key = public_key(_pem(algorithm))
    assert key.algorithm == algorithm
    assert _check(token, key)["sub"] == "s"
    assert _check(token, *read_key_set({"keys": [_jwk(algorithm, "k")]}, [algorithm]))["sub"] == "s"
    # As environment variables often carry them.
    assert _check(token, public_key(_pem(algorithm).replace("\n", "\\n")))["sub"] == "s"


def test_a_shared_secret_verifies_hs256() -> None:
    assert _check(_token())["sub"] == "s"


def _forged(header: dict[str, Any], secret: bytes) -> str:
    """A token signed by HMAC whatever its header says; libraries refuse to make it."""
    parts = [header, {"sub": "evil", "iss": "us", "aud": "queen", "exp": NOW + 60}]
    text = b".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts
    )
    mark = base64.urlsafe_b64encode(hmac.digest(secret, text, hashlib.sha256)).rstrip(b"=")
    return (text + b"." + mark).decode()


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "HS512", "RS256", "", None, 7])
def test_a_public_key_is_never_a_secret_and_no_header_chooses_another_algorithm(
    algorithm: Any,
) -> None:
    pem = _pem("RS256")
    token = _forged({"alg": algorithm, "typ": "JWT"}, pem.encode())
    with pytest.raises(Unauthenticated):
        _check(token, public_key(pem))
    with pytest.raises(Unauthenticated):
        _check(token, public_key(pem), secret_key(SECRET))


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW - 31}, {"exp": None}, {"exp": True}, {"exp": float("nan")}, {"nbf": NOW + 31},
        {"aud": "other"}, {"aud": None}, {"iss": "them"}, {"iss": None}, {"aud": ["x", "y"]},
    ],
    ids=[
        "expired", "no-exp", "exp-bool", "exp-nan", "not-yet", "other-aud", "no-aud", "other-iss",
        "no-iss", "aud-list",
    ],
)  # fmt: skip
def test_claims_that_do_not_fit_are_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated):
        _check(_token(**claims))


def test_clocks_may_be_apart_a_little() -> None:
    _check(_token(exp=NOW - 29))
    _check(_token(nbf=NOW + 29))
    _check(_token(aud=["x", "queen"]))
    _check(_token(exp=None), rules=JwtRules("us", "queen", requires_exp=False))


def test_how_long_a_token_may_be_remembered_is_its_own_end() -> None:
    _, end = verify(_token(), [secret_key(SECRET)], RULES, now_s=NOW)
    assert end == NOW + 60 + 30


@pytest.mark.parametrize(
    "text",
    ["", "x", "a.b.c", "a.b", "é", "..", "x" * 9_000, "\x00"],
    ids=["empty", "x", "abc", "ab", "accent", "dots", "long", "nul"],
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(Unauthenticated):
        _check(text)


def test_a_key_set_gives_only_keys_that_may_verify() -> None:
    small = rsa.generate_private_key(65_537, 1_024).public_key()
    document = {
        "keys": [
            _jwk("RS256", "good"),
            _jwk("RS256", "for-encryption", use="enc"),
            _jwk("RS256", "other-alg", alg="RS512"),
            {"kty": "oct", "k": base64.urlsafe_b64encode(SECRET.encode()).decode(), "kid": "oct"},
            {**jwt.get_algorithm_by_name("RS256").to_jwk(small, as_dict=True), "kid": "small"},
            {"kty": "RSA"},
            "nonsense",
            _jwk("ES256", "es"),
        ]
    }
    found = read_key_set(document, ["RS256", "ES256", "EdDSA"])
    assert [(key.kid, key.algorithm) for key in found] == [("good", "RS256"), ("es", "ES256")]
    assert [key.kid for key in read_key_set(document, ["ES256"])] == ["es"]


def test_the_key_that_a_token_names_must_be_the_one_that_signed_it() -> None:
    keys = read_key_set({"keys": [_jwk("ES256", "one")]}, ["ES256"])
    assert _check(_token("ES256", PRIVATE["ES256"], kid="one"), *keys)
    with pytest.raises(UnknownKey):
        _check(_token("ES256", PRIVATE["ES256"], kid="two"), *keys)


@pytest.mark.parametrize("secret", ["", "short", "x" * 31])
def test_a_short_secret_stops_the_start(secret: str) -> None:
    with pytest.raises(SettingsError, match="at least 32"):
        secret_key(secret)


@pytest.mark.parametrize(
    "pem",
    ["", "x", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"],
    ids=["empty", "x", "broken"],
)
def test_a_key_that_is_none_stops_the_start(pem: str) -> None:
    with pytest.raises(SettingsError):
        public_key(pem)
