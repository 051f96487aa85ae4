"""The schema as text, from the catalogue of a migrated database: the same on every server version.

Holds what callers and other tools rely on: tables with columns, defaults, storage options,
constraints and indexes; types, views, triggers; signatures of functions. Bodies of functions are in
their own files.

    python -m tests.support.schema_snapshot > tests/integration/schema.snapshot.txt
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import asyncpg

from queenmq.storage.embedded import EmbeddedPostgres
from queenmq.storage.schema.migrator import migrate

#: The one command that writes the committed snapshot again.
COMMAND = "python -m tests.support.schema_snapshot > tests/integration/schema.snapshot.txt"

_RELATIONS = """
SELECT c.oid, CASE WHEN n.nspname = 'queen' THEN '' ELSE n.nspname || '.' END || c.relname AS name,
       c.relkind::text AS kind,
       array_to_string(ARRAY(SELECT unnest(c.reloptions) ORDER BY 1), ', ') AS options
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('queen', 'queen_streams') AND c.relkind IN ('r', 'p', 'v', 'm', 'c', 'S')
ORDER BY c.relkind::text COLLATE "C", n.nspname::text COLLATE "C", c.relname::text COLLATE "C"
"""
_COLUMNS = """
SELECT a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
       || CASE WHEN a.attcollation <> t.typcollation THEN ' COLLATE "' || k.collname || '"'
               ELSE '' END
       || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
       || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '') AS line
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation k ON k.oid = a.attcollation
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
# Newer servers list NOT NULL as constraints, too; the columns say it already.
_CONSTRAINTS = """
SELECT conname || ' ' || pg_get_constraintdef(oid) AS line FROM pg_constraint
WHERE conrelid = $1 AND contype <> 'n' ORDER BY conname::text COLLATE "C"
"""
_INDEXES = """
SELECT pg_get_indexdef(indexrelid) AS line FROM pg_index
WHERE indrelid = $1 AND NOT EXISTS (
    SELECT FROM pg_constraint k WHERE k.conindid = indexrelid AND k.contype <> 'f')
ORDER BY indexrelid::regclass::text COLLATE "C"
"""
_TRIGGERS = """
SELECT pg_get_triggerdef(oid) AS line FROM pg_trigger WHERE tgrelid = $1 AND NOT tgisinternal
ORDER BY tgname::text COLLATE "C"
"""
_VIEW = "SELECT pg_get_viewdef($1::oid) AS line"
_FUNCTIONS = """
SELECT p.proname || '(' || pg_get_function_arguments(p.oid) || ') returns '
       || coalesce(pg_get_function_result(p.oid), 'nothing') || ' '
       || CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END
       || CASE WHEN p.proisstrict THEN ' strict' ELSE '' END
       || CASE WHEN p.prosecdef THEN ' security definer' ELSE '' END AS line
FROM pg_proc p
WHERE p.pronamespace = 'queen'::regnamespace
ORDER BY p.proname::text COLLATE "C", pg_get_function_identity_arguments(p.oid) COLLATE "C"
"""
_KINDS = {"r": "table", "p": "table", "v": "view", "m": "view", "c": "type", "S": "sequence"}


async def take_snapshot(connection: asyncpg.Connection) -> str:
    """The snapshot of the database behind a connection."""
    # Without schema names left out: the text must not depend on the session's search path.
    await connection.execute("SET search_path = ''")
    parts: list[str] = []
    for relation in await connection.fetch(_RELATIONS):
        kind, options = _KINDS[relation["kind"]], relation["options"]
        parts.append(f"{kind} {relation['name']}" + (f" with ({options})" if options else ""))
        if kind == "view":
            parts += _indented(await connection.fetch(_VIEW, relation["oid"]))
            continue
        for query in (_COLUMNS, _CONSTRAINTS, _INDEXES, _TRIGGERS):
            parts += _indented(await connection.fetch(query, relation["oid"]))
    parts += [f"function {row['line']}" for row in await connection.fetch(_FUNCTIONS)]
    return "\n".join(parts) + "\n"


def _indented(rows: Iterable[asyncpg.Record]) -> list[str]:
    return [f"    {line.strip()}" for row in rows for line in row["line"].splitlines()]


async def _migrated_snapshot(url: str) -> str:
    await migrate(url)
    connection = await asyncpg.connect(url)
    try:
        return await take_snapshot(connection)
    finally:
        await connection.close()


def main() -> None:
    """Print the snapshot of a fresh database on an embedded server."""
    with tempfile.TemporaryDirectory(prefix="queen-test-") as home:
        with EmbeddedPostgres(Path(home) / "data", shared_buffers_mb=16) as server:
            sys.stdout.write(asyncio.run(_migrated_snapshot(server.socket_url)))


if __name__ == "__main__":
    main()
