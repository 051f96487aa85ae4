"""Creates the database roles of brokers, producers, readers and operators."""

from __future__ import annotations

import re

from queenmq.errors import InvalidRequest
from queenmq.storage.connection.connecting import open_connection
from queenmq.storage.connection.driver_errors import translate_error
from queenmq.storage.schema.foreign import find_foreign
from queenmq.storage.sql_files import load_queries

#: What each role is for, by the end of its name.
PARTS = {
    "broker": "runs brokers; owns the schema",
    "producer": "calls queen.push and nothing else",
    "reader": "reads messages with Spark",
    "admin": "runs queen db check, resync-lookup, vacuum-report and create-token",
}
_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,30}")


async def make_roles(url: str, prefix: str) -> list[str]:
    """Create missing roles and grant their rights. Safe to repeat. Return their names."""
    if not _PREFIX.fullmatch(prefix):
        raise InvalidRequest(
            f"prefix {prefix!r} cannot begin a role's name; use lower-case letters, digits and _"
        )
    sql = load_queries("schema/roles")
    async with open_connection(url) as connection:
        with translate_error():
            async with connection.transaction():
                foreign = [one.oid for one in await find_foreign(connection)]
                await connection.fetchval(sql["set_prefix"], prefix, foreign)
                for step in ("create_roles", "own_schema", "grant_rights", "grant_statistics"):
                    await connection.execute(sql[step])
    return [f"{prefix}{part}" for part in PARTS]
