"""JWTs for tests."""

from __future__ import annotations

import time
from typing import Any

import jwt

SECRET = "a secret of tests that is longer than 32 bytes"
ISSUER = "https://issuer.test"
AUDIENCE = "queen-tests"
#: Of a broker that wants such tokens.
JWT_SETTINGS = {
    "JWT_ENABLED": "true",
    "JWT_SECRET": SECRET,
    "JWT_ISSUER": ISSUER,
    "JWT_AUDIENCE": AUDIENCE,
}


def signed(
    *, secret: Any = SECRET, algorithm: str = "HS256", headers: Any = None, **claims: Any
) -> str:
    """A token that is good for the test brokers unless a claim says otherwise; None drops one."""
    now = int(time.time())
    body = {"sub": "tester", "iss": ISSUER, "aud": AUDIENCE, "exp": now + 600, **claims}
    given = {name: value for name, value in body.items() if value is not None}
    return jwt.encode(given, secret, algorithm=algorithm, headers=headers)
