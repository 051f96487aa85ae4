"""The functions of the last release as its brokers call them. After a release:

python -m tests.support.released_functions > tests/integration/functions.released.json
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

import asyncpg

from queenmq.storage.embedded import EmbeddedPostgres
from queenmq.storage.schema.function_change import FunctionVersion
from queenmq.storage.schema.functions import read_versions
from queenmq.storage.schema.migrator import migrate

_NAMES = "SELECT DISTINCT proname::text FROM pg_proc WHERE pronamespace = 'queen'::regnamespace"

Functions = dict[str, list[FunctionVersion]]


async def read_functions(connection: asyncpg.Connection) -> Functions:
    """All functions of a database by name."""
    # Names of types must not depend on the session.
    await connection.execute("SET search_path = pg_catalog")
    names = sorted(row[0] for row in await connection.fetch(_NAMES))
    return {name: await read_versions(connection, name) for name in names}


def load(path: Path) -> Functions:
    """Read what `dump` has written."""
    return {
        name: [
            FunctionVersion(**{**one, "types": tuple(one["types"]), "names": tuple(one["names"])})
            for one in versions
        ]
        for name, versions in json.loads(path.read_text()).items()
    }


def dump(functions: Functions) -> str:
    """Write functions as JSON, a line each."""
    lines = [
        f"{json.dumps(name)}: {json.dumps([one._asdict() for one in versions])}"
        for name, versions in functions.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


async def _read(url: str) -> Functions:
    await migrate(url)
    connection = await asyncpg.connect(url)
    try:
        return await read_functions(connection)
    finally:
        await connection.close()


def main() -> None:
    """Print the functions of a fresh database on an embedded server."""
    with tempfile.TemporaryDirectory(prefix="queen-test-") as home:
        with EmbeddedPostgres(Path(home) / "data", shared_buffers_mb=16) as server:
            sys.stdout.write(dump(asyncio.run(_read(server.socket_url))))


if __name__ == "__main__":
    main()
