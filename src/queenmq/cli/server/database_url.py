"""Finds the settings and the database of a command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from queenmq import settings
from queenmq.cli.exits import NothingThere, UsageProblem
from queenmq.errors import QueenError, SettingsError, StorageFault


def load_settings(flags: Mapping[str, Any], *, config: str | None = None) -> settings.Settings:
    """Return all settings; one that cannot be used is a mistake of the command line."""
    try:
        return settings.load(flags, config=config)
    except SettingsError as error:
        raise UsageProblem(str(error)) from error


def find_url(database_url: str | None, data_dir: str | None) -> str:
    """Return the database that the flags name, or else the one that the other settings name."""
    return _locate(database_url, data_dir)[0]


@contextlib.contextmanager
def open_database(database_url: str | None, data_dir: str | None) -> Iterator[str]:
    """Yield the URL that `find_url` returns, of a server that runs.

    Starts the embedded PostgreSQL of a data directory until the end, unless a broker runs on it.
    A broker that starts meanwhile fails, and names the process that has the directory.
    """
    from queenmq.storage.embedded import DataDirInUse, EmbeddedPostgres

    url, own_dir = _locate(database_url, data_dir)
    with contextlib.ExitStack() as stack:
        if own_dir is not None:
            # Otherwise the broker that has it runs the server.
            with contextlib.suppress(DataDirInUse):
                server = stack.enter_context(EmbeddedPostgres(Path(own_dir)))
                url = server.url
        yield url


def _locate(database_url: str | None, data_dir: str | None) -> tuple[str, str | None]:
    """Return the URL, and the data directory if that names the database."""
    if database_url is not None and data_dir is not None:
        raise UsageProblem("--database-url and --data-dir name two databases; give one of them")
    loaded = load_settings({"database_url": database_url, "data_dir": data_dir})
    if loaded.database_url is not None and data_dir is None:
        return loaded.database_url, None
    return embedded_url(loaded.data_dir), loaded.data_dir


def embedded_url(data_dir: str, *, socket: bool = False) -> str:
    """Return the URL of the embedded PostgreSQL of a data directory."""
    from queenmq.storage.embedded import NoClusterFound, read_url

    try:
        return read_url(Path(data_dir), socket=socket)
    except NoClusterFound as error:
        raise NothingThere(str(error)) from error


_MISSING_PRIVILEGE = "42501"


@contextlib.contextmanager
def explaining_rights(url: str) -> Iterator[None]:
    """Name the role that may not do what a command needs."""
    try:
        yield
    except StorageFault as error:
        if error.code != _MISSING_PRIVILEGE:
            raise
        role = unquote(urlsplit(url).username or "of this connection")
        raise QueenError(
            f"role {role} may not do this (SQLSTATE {error.code}); use the role that owns the"
            " schema, or queen_admin of queen db roles"
        ) from error
