"""Reports how well autovacuum keeps up with Queen's tables, on its own connection."""

from __future__ import annotations

from typing import Any

from queenmq.errors import StorageRejected
from queenmq.storage.connection.connecting import open_connection
from queenmq.storage.connection.driver_errors import translate_error
from queenmq.storage.schema.foreign import own_relations
from queenmq.storage.sql_files import load_queries


async def vacuum_report(url: str) -> dict[str, Any]:
    """Report `server` settings, `tables` with their counts, largest first, and `holders`, which
    keep dead rows from being removed, oldest first.
    """
    sql = load_queries("schema/vacuum_report")
    async with open_connection(url) as connection:
        with translate_error():
            async with connection.transaction(readonly=True):
                (server,) = await connection.fetch(sql["server"])
                tables = await connection.fetch(sql["tables"], own_relations())
                holders = await connection.fetch(sql["holders"])
    if not tables:
        raise StorageRejected("the database has no schema queen; has a broker been started on it?")
    return {
        "server": dict(server),
        "tables": [dict(row) for row in tables],
        "holders": [dict(row) for row in holders],
    }
