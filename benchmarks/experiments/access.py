"""Measure what authentication costs: push-1 with a token that is checked, and without.

Two brokers share one database and take turns. All requests carry the same header, so that only the
check differs.
"""

from __future__ import annotations

import time

import jwt

from benchmarks.database import running_database
from benchmarks.experiment import Context, Row
from benchmarks.pairs import Side, compare, take_turns

ABOUT = "push-1 with a JWT (HS256) that is checked, and without authentication"

_SECRET = "a secret for benchmarks of more than 32 bytes"
_TARGET = 0.93


async def run(context: Context) -> list[Row]:
    claims = {"sub": "bench", "role": "read-write", "exp": int(time.time()) + 86_400}
    header = f"Authorization: Bearer {jwt.encode(claims, _SECRET)}"
    async with running_database() as bench:
        guarded = {"QUEEN_AUTH_ENABLED": "true", "QUEEN_JWT_SECRET": _SECRET}
        with context.broker(bench) as free, context.broker(bench, **guarded) as checked:
            sides = {"without": Side(free), "HS256": Side(checked)}
            take_turns(context, sides, ["push-1"], headers=[header])
    return compare("HS256", "without", sides, target=_TARGET)
