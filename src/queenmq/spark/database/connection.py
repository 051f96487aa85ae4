"""Owns the connections to PostgreSQL, through ADBC, and turns their errors into one sentence.

Every statement is a separate transaction (autocommit), so that none stays open and no snapshot
outlives its statement. Results are fetched completely before they are processed, because a slow
consumer must not hold a snapshot, which would block vacuum.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import adbc_driver_manager
import adbc_driver_manager.dbapi
import adbc_driver_postgresql
import pyarrow as pa

from queenmq.errors import InvalidRequest, QueenError, StorageRejected, StorageUnavailable
from queenmq.spark.database.sql_text import Sql

#: Defaults for parameters that a URL leaves out.
_DEFAULTS = {"application_name": "queen-spark", "connect_timeout": "10"}
#: Databases that one process remembers: more than a worker of Spark uses at a time.
_DATABASES_MAX = 8
_NO_PRIVILEGE = "42501"
_NOT_THERE = ("3F000", "42P01", "42703", "42883")


class Database:
    """One connection."""

    def __init__(self, url: str) -> None:
        self._place = _place_of(url)
        with _translate_errors(self._place):
            self._connection = connect(url)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The driver's database stays open for the next read."""
        with contextlib.suppress(adbc_driver_manager.Error):
            self._connection.close()

    def table(self, statement: Sql) -> pa.Table:
        """Return all rows of a statement, by a binary COPY."""
        with _translate_errors(self._place), self._connection.cursor() as cursor:
            cursor.execute(str(statement))
            return cursor.fetch_arrow_table()

    def rows(self, statement: Sql, parameter: object = None) -> list[dict[str, Any]]:
        """Return the few rows of a look-up. The parameter is passed as JSON."""
        with _translate_errors(self._place), self._connection.cursor() as cursor:
            cursor.execute(str(statement), None if parameter is None else (_json(parameter),))
            found: list[dict[str, Any]] = cursor.fetch_arrow_table().to_pylist()
            return found

    def row(self, statement: Sql) -> dict[str, Any]:
        """Return the one row of a look-up."""
        return self.rows(statement)[0]

    def execute(self, statement: Sql, parameter: object) -> None:
        """Run a statement that returns nothing."""
        with _translate_errors(self._place), self._connection.cursor() as cursor:
            cursor.execute(str(statement), (_json(parameter),))


class _Kept:
    """Stands in for a driver's database that its connections must not close."""

    def close(self) -> None:
        """Keep the connection open, because the next read needs it."""


def connect(url: str) -> Any:
    """Return a connection that commits each statement by itself.

    Before its first connection the driver loads the types of the database, which takes longer than
    everything else. A worker of Spark runs many tasks, so this is done once per process.
    """
    database = _database(with_defaults(url), os.getpid())
    opened = adbc_driver_manager.AdbcConnection(database)
    kept: Any = _Kept()
    return adbc_driver_manager.dbapi.Connection(kept, opened, autocommit=True)


@functools.lru_cache(maxsize=_DATABASES_MAX)
def _database(url: str, pid: int) -> Any:
    """Return the connection of this process. A fork cannot use its parent's."""
    return adbc_driver_postgresql.connect(url)


def _json(parameter: object) -> str:
    return parameter if isinstance(parameter, str) else json.dumps(parameter)


def with_defaults(url: str) -> str:
    """Return the URL with an application name and a connect timeout, unless it has them."""
    given = {name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)}
    missing = [f"{name}={quote(value)}" for name, value in _DEFAULTS.items() if name not in given]
    if not missing:
        return url
    joint = "&" if given else "" if url.endswith("?") else "?"
    return url + joint + "&".join(missing)


def _place_of(url: str) -> str:
    """Return host and database for error texts, never the password."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidRequest(
            f"The database URL is not valid ({error})."
            " Write it as postgresql://user@host:port/database."
        ) from None
    query = dict(parse_qsl(parts.query))
    host = parts.netloc.rpartition("@")[2] or query.get("host", "the local socket")
    return f"{host}, database {parts.path.lstrip('/') or query.get('dbname', 'of that user')}"


@contextlib.contextmanager
def _translate_errors(place: str) -> Iterator[None]:
    try:
        yield
    except adbc_driver_manager.Error as error:
        raise _sentence(error, place) from None


def _sentence(error: adbc_driver_manager.Error, place: str) -> QueenError:
    reason = _reason(str(error))
    code = error.sqlstate
    if code == _NO_PRIVILEGE:
        return StorageRejected(
            f"the role of the option url may not read Queen's tables at {place}: {reason}"
        )
    if code in _NOT_THERE:
        return StorageRejected(
            f"no Queen, or one of another version, at {place}: {reason}; start a broker there once"
        )
    if code is None or code.startswith(("08", "28", "3D", "53", "57")):
        return StorageUnavailable(f"cannot use PostgreSQL at {place}: {reason}")
    return StorageRejected(f"PostgreSQL at {place} refused a statement: {reason}")


def _reason(text: str) -> str:
    """Return the reason in a driver's error text, without the statement."""
    text = text.partition("\nQuery was:")[0]
    for mark in ("FATAL:", "ERROR:", "failed:", "Failed to connect:"):
        if mark in text:
            text = text.partition(mark)[2]
            break
    return text.strip().partition("\n")[0].strip()
