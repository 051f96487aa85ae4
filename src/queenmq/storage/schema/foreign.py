"""Tells Queen's own tables from those that others put into its schemas.

The role of the embedded server is named like the schema, so PostgreSQL's default search path led
`CREATE TABLE` there.
"""

from __future__ import annotations

import functools
import logging
import re
from typing import NamedTuple

import asyncpg

from queenmq.errors import StorageRejected
from queenmq.storage.connection.connecting import open_connection
from queenmq.storage.connection.driver_errors import translate_error
from queenmq.storage.sql_files import load_folder, load_queries

logger = logging.getLogger(__name__)

_MADE = re.compile(
    r"^CREATE (?:UNLOGGED )?(?:TABLE|VIEW|SEQUENCE|TYPE) (queen(?:_streams)?\.\w+)", re.MULTILINE
)


class Foreign(NamedTuple):
    """A relation in one of our schemas that no migration made."""

    oid: int
    #: With its schema, quoted.
    name: str
    #: A table or a sequence, not a view or a type.
    holds_data: bool

    @property
    def moves_out(self) -> str:
        """Return the statement that moves it out of our schema."""
        return f"ALTER TABLE {self.name} SET SCHEMA public"


@functools.cache
def own_relations() -> tuple[str, ...]:
    """Return the names of all relations that the migrations and their bookkeeping make."""
    texts = [file.text for file in load_folder("migrations")]
    texts.append(load_queries("schema/migrations")["create_bookkeeping"])
    return tuple(sorted({name for text in texts for name in _MADE.findall(text)}))


async def find_foreign(connection: asyncpg.Connection) -> list[Foreign]:
    """Return the relations in our schemas that are not ours. Raises if there is no schema."""
    sql = load_queries("schema/foreign")
    if not await connection.fetchval(sql["has_schema"]):
        raise StorageRejected(
            "the database has no schema queen; start a broker on it, or run queen db migrate"
        )
    migrations = [f"migrations/{file.name}" for file in load_folder("migrations")]
    return [
        Foreign(*row) for row in await connection.fetch(sql["find"], own_relations(), migrations)
    ]


async def leave_search_path(url: str) -> None:
    """Let new tables of the role go to schema public, unless a person has chosen a search path.

    While tables of others are in our schemas, their programs may find them by this path. Then it
    stays, with a warning.
    """
    async with open_connection(url) as connection:
        with translate_error():
            statement = await connection.fetchval(load_queries("schema/foreign")["leaving_path"])
            if statement is None:
                return
            foreign = [one for one in await find_foreign(connection) if one.holds_data]
            if not foreign:
                await connection.execute(statement)
                return
    logger.warning(
        "Schema queen holds tables that are not Queen's, so the search path of its role stays."
        " Move them out and restart the broker: %s",
        "; ".join(one.moves_out for one in foreign),
        extra={"event": "foreign_tables", "tables": len(foreign)},
    )
