"""`queen serve`: one broker, with its own PostgreSQL unless it is given one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from queenmq import log, settings
from queenmq.cli.exits import UsageProblem
from queenmq.cli.server.database_url import load_settings
from queenmq.crypto.keys import read_keys
from queenmq.errors import AccessRefused, QueenError, SettingsError, StorageUnavailable

if TYPE_CHECKING:
    from queenmq.server.orders import BrokerOrders
    from queenmq.storage.embedded import EmbeddedPostgres

logger = logging.getLogger(__name__)

Text = str | None

#: How often the embedded server is checked.
_CHECK_S = 1.0


def serve(
    host: Text = typer.Option(None, help="Address to listen on.", show_default="127.0.0.1"),
    port: Text = typer.Option(
        None, help="Port to listen on; 0 picks a free one.", show_default="6632"
    ),
    workers: Text = typer.Option(None, help="Processes that share the port.", show_default="1"),
    database_url: Text = typer.Option(
        None, help="PostgreSQL 15 to 18 to use instead of the embedded one."
    ),
    data_dir: Text = typer.Option(
        None, help="Data directory of the embedded PostgreSQL.", show_default="queen-data"
    ),
    tls_cert: Text = typer.Option(None, help="PEM file with the certificate; enables https."),
    tls_key: Text = typer.Option(None, help="PEM file with its key."),
    tls_client_ca: Text = typer.Option(None, help="Require client certificates of this authority."),
    insecure: bool = typer.Option(
        False, "--insecure", help="Listen beyond this machine without authentication."
    ),
    move_targets: Text = typer.Option(
        None, help="Servers that the API may copy the database to, by commas."
    ),
    log_level: Text = typer.Option(
        None, help="debug, info, warning or error.", show_default="info"
    ),
    log_format: Text = typer.Option(None, help="text or json.", show_default="text"),
    config: Text = typer.Option(None, help="TOML file with settings."),
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C.

    Every setting can also be given as QUEEN_<NAME> in the environment or in the --config file.

    Example: queen serve --port 6632 --data-dir ./queen-data
    """
    flags = {
        "host": host,
        "port": port,
        "workers": workers,
        "database_url": database_url,
        "data_dir": data_dir,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "tls_client_ca": tls_client_ca,
        "insecure": insecure or None,
        "move_targets": move_targets,
        "log_level": log_level,
        "log_format": log_format,
    }
    loaded = load_settings(flags, config=config)
    log.configure(level=loaded.log_level, log_format=loaded.log_format)
    _warn_of_unknown_variables()
    _name_our_variables()
    _check_exposure(loaded)
    _forbid_core_dumps()
    try:
        is_well = _run(loaded, settings.find_origins(flags, config=config))
    except StorageUnavailable as error:
        # A start that fails has one exit code, whatever stopped it.
        raise QueenError(str(error)) from error
    sys.exit(0 if is_well else 1)


def _warn_of_unknown_variables() -> None:
    for name, nearest in settings.find_unknown().items():
        hint = f"did you mean {nearest}?" if nearest else "docs/settings.md lists all settings"
        logger.warning(
            "environment variable %s is unknown and has no effect; %s",
            name,
            hint,
            extra={"event": "unknown_variable", "variable": name},
        )


def _check_exposure(loaded: settings.Settings) -> None:
    """Refuse to serve a network without authentication, unless that is asked for by name."""
    from queenmq.server.edge.origins import is_loopback

    if loaded.auth_enabled or is_loopback(loaded.host):
        return
    if not loaded.insecure:
        raise UsageProblem(
            f"host {loaded.host} is reachable from other machines and authentication is off;"
            " set QUEEN_AUTH_ENABLED=true (docs/security.md), or pass --insecure to accept"
            " every request from anyone"
        )
    logger.warning(
        "INSECURE: anyone who reaches %s:%s can read, change and delete every message",
        loaded.host,
        loaded.port,
        extra={"event": "insecure"},
    )


def _forbid_core_dumps() -> None:
    """Forbid core dumps of the broker's processes.

    They would contain keys, tokens and payloads. Workers and the embedded PostgreSQL inherit the
    limit.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def _name_our_variables() -> None:
    for variable, name in settings.find_original_names():
        logger.warning(
            "environment variable %s is read as %s; use that name",
            variable,
            name,
            extra={"event": "original_variable", "variable": variable},
        )


def _run(loaded: settings.Settings, origins: dict[str, settings.Origin]) -> bool:
    try:
        from queenmq.server import http
        from queenmq.server.auth.wiring import check_settings
        from queenmq.server.tls.certificates import find_files, make_context
        from queenmq.server.workers import run_workers
    except ImportError as error:
        raise SettingsError(
            f"the broker needs {error.name}, which is missing; run pip install 'queenmq[server]'"
        ) from error
    check_settings(loaded)
    # Report mistakes in files now, and not once per worker.
    files = find_files(loaded)
    if files is not None:
        make_context(files)
    read_keys(loaded.encryption_key, loaded.encryption_key_file)
    sock = _bind(loaded)
    address = http.address_of(sock, is_tls=files is not None)

    def on_ready(_: str | None) -> None:
        print(f"Queen is ready on {address}", flush=True)

    with sock, _database(loaded) as url:
        orders = msgspec.structs.replace(_prepare(url, loaded), origins=origins)
        if loaded.workers == 1:
            return http.serve(sock, orders, on_ready=on_ready)
        return run_workers(sock, orders, on_ready=on_ready)


def _prepare(url: str, loaded: settings.Settings) -> BrokerOrders:
    """Bring the schema up to date.

    An external database that cannot be reached is left for later; one that refuses us needs a
    person, so the start stops.
    """
    from queenmq.server.orders import BrokerOrders, Missing
    from queenmq.storage.schema.foreign import leave_search_path
    from queenmq.storage.schema.migrator import migrate

    may_wait, missing = loaded.database_url is not None, None
    try:
        asyncio.run(migrate(url, connect_timeout_ms=loaded.db_connect_timeout_ms))
    except AccessRefused:
        raise
    except StorageUnavailable as error:
        if not may_wait:
            raise
        missing = Missing(str(error), error.public, error.reason)
    if not may_wait:
        # The role is ours on our own server only.
        asyncio.run(leave_search_path(url))
    return BrokerOrders(url=url, settings=loaded, may_wait=may_wait, missing=missing)


def _bind(loaded: settings.Settings) -> socket.socket:
    from queenmq.server import http

    try:
        return http.bind(loaded)
    except OSError as error:
        raise QueenError(
            f"cannot listen on {loaded.host}:{loaded.port}: {error.strerror}; choose another --port"
        ) from error


@contextlib.contextmanager
def _database(loaded: settings.Settings) -> Iterator[str]:
    """Yield the URL of the database to use; our own server runs as long as the context."""
    if loaded.database_url is not None:
        yield loaded.database_url
        return
    from queenmq.storage.embedded import EmbeddedPostgres

    with EmbeddedPostgres(Path(loaded.data_dir)) as server:
        done = threading.Event()
        watch = threading.Thread(
            target=_watch, args=(server, done), name="watch-postgres", daemon=True
        )
        watch.start()
        try:
            yield server.socket_url
        finally:
            done.set()
            watch.join()


def _watch(server: EmbeddedPostgres, done: threading.Event) -> None:
    """Say it loudly when the embedded server is beyond repair; requests are then refused."""
    while not done.wait(_CHECK_S):
        try:
            server.check()
        except QueenError as error:
            facts = {"event": "postgres_gave_up"}
            logger.critical("%s", error, extra=facts)
            return
