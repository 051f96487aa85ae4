"""The PostgreSQL server of a whole test run, and the ordinary role that tests use it with.

`QUEEN_TEST_PG_BIN` names the programs of another PostgreSQL than the one we ship, such as
`/usr/lib/postgresql/15/bin`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import asyncpg

from queenmq.storage.embedded import EmbeddedPostgres
from tests.support.folders import own_folder
from tests.support.own_postgres import other_programs, running_empty
from tests.support.plain_sql import documented_sql

#: As docs/operations.md has it: a login, and nothing more. It owns the databases of tests.
ROLE = "queen_owner"
_CONNECTIONS = 200
#: Copies files by the kernel instead of page by page, where the server knows how: since 18.
_CLONE = (
    "SELECT set_config(name, 'clone', false) FROM pg_settings"
    " WHERE name = 'file_copy_method' AND 'clone' = ANY (enumvals)"
)


class SharedPostgres:
    """One server: databases for the ordinary role, and the superuser's way into them."""

    def __init__(self, superuser_url: str, *, tcp_url: str | None = None) -> None:
        self._superuser_url = superuser_url
        #: The way in that asks for a password, if there is one.
        self.tcp_url = tcp_url

    def url_of(self, database: str) -> str:
        """The URL of a database for the role that owns it."""
        user = urlsplit(self._superuser_url).netloc.partition("@")[0]
        return self.superuser_url_of(database).replace(f"//{user}@", f"//{ROLE}:local@", 1)

    def superuser_url_of(self, database: str) -> str:
        parts = urlsplit(self._superuser_url)
        return parts._replace(path=f"/{database}").geturl()

    def be_quick(self) -> None:
        """Let commits skip the disk: nobody crashes this server, and a run makes many databases."""
        for setting in ("fsync", "full_page_writes"):
            self.execute(f"ALTER SYSTEM SET {setting} = off")
        self.execute("SELECT pg_reload_conf()")

    def make_role(self) -> None:
        self.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD 'local'")

    def create(self, database: str, *, template: str | None) -> None:
        """Create a database that the ordinary role owns."""
        # Half the work of the default, which writes every page of the template to the log.
        copy = f" TEMPLATE {template} STRATEGY file_copy" if template else ""
        self.execute(_CLONE, f"CREATE DATABASE {database} OWNER {ROLE}{copy}")

    def drop(self, database: str) -> None:
        self.execute(f"DROP DATABASE {database} WITH (FORCE)")

    def grant_documented(self, execute: Callable[[str], object], page: str, heading: str) -> None:
        """Grant what a page tells to grant, by the owner of the schema where that is enough."""
        for statement in documented_sql(page, heading).split(";"):
            if "GRANT pg_" in statement:
                self.execute(statement)
            elif statement.strip() and "CREATE ROLE" not in statement:
                execute(statement)

    @contextlib.contextmanager
    def role(self, name: str, url: str) -> Iterator[str]:
        """Make a role without any right; its URL for the database of another URL."""
        parts = urlsplit(url)
        self.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'local'")
        try:
            yield url.replace(f"//{parts.netloc.partition('@')[0]}@", f"//{name}:local@", 1)
        finally:
            self.execute(f"DROP OWNED BY {name}", database=parts.path.strip("/"))
            self.execute(f"DROP ROLE {name}")

    def execute(self, *statements: str, database: str | None = None) -> None:
        """Run statements as the superuser, one after another in one session."""
        url = self._superuser_url if database is None else self.superuser_url_of(database)

        async def run() -> None:
            connection = await asyncpg.connect(url)
            try:
                for statement in statements:
                    await connection.execute(statement)
            finally:
                await connection.close()

        # Coroutines need it as well, and their thread has a loop already.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, run()).result()


@contextlib.contextmanager
def running_postgres() -> Iterator[SharedPostgres]:
    """Run the server, with the ordinary role, until the end."""
    with _embedded() if other_programs() is None else _other() as server:
        server.make_role()
        server.be_quick()
        yield server


@contextlib.contextmanager
def _embedded() -> Iterator[SharedPostgres]:
    with (
        own_folder() as home,
        EmbeddedPostgres(home / "data", max_connections=_CONNECTIONS) as server,
    ):
        yield SharedPostgres(server.socket_url, tcp_url=server.url)


@contextlib.contextmanager
def _other() -> Iterator[SharedPostgres]:
    with running_empty(max_connections=_CONNECTIONS) as server:
        yield SharedPostgres(server.superuser_url_of("postgres"))
