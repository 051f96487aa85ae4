"""Describes faults of the database: one word, a sentence for callers, one for operators.

It goes by SQLSTATE and kind of error, never by text. Callers never see the names of hosts, roles or
tables. Operators see them, with advice.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import asyncpg

from queenmq.errors import AccessRefused, StorageUnavailable
from queenmq.storage.connection.hosts import DatabaseUrl, Host

NO_SLOT = "no_connection_slot"
READ_ONLY = "read_only"


class Fault(NamedTuple):
    """A fault: one word, the sentence for callers, and the advice for operators."""

    reason: str
    public: str
    advice: str = "try again"


_FAILED = Fault("failed", "the database cannot serve the request now")
_NO_ANSWER = Fault("no_answer", "the database did not answer in time")
_UNREACHABLE = Fault("unreachable", "the database cannot be reached")
_REFUSED = "the database does not let the broker in"

#: By SQLSTATE.
_BY_CODE = {
    "25006": Fault(READ_ONLY, "the database is read-only"),
    "53100": Fault(
        "disk_full", "the database has no disk space left", "make room on its disk, then try again"
    ),
    "53200": Fault("out_of_memory", "the database is out of memory"),
    "53300": Fault(
        NO_SLOT,
        "the database has no free connection slot",
        "try again, raise max_connections, or lower QUEEN_DB_POOL_SIZE",
    ),
    "57P01": Fault("stopping", "the database is stopping"),
    "57P02": Fault("stopping", "the database is stopping"),
    "57P03": Fault("starting", "the database is starting or stopping"),
    "28P01": Fault("wrong_password", _REFUSED, "correct the password in the database URL"),
    "28000": Fault(
        "access_refused",
        _REFUSED,
        "correct the role in the database URL, allow it in pg_hba.conf, or set sslmode=require",
    ),
    "3D000": Fault("no_such_database", _REFUSED, "create the database or correct the URL"),
    "42501": Fault(
        "missing_privilege",
        "the database does not allow the broker what it needs",
        "grant the privilege to the broker's role",
    ),
}
#: Faults of a server that answers. Only an operator can fix them.
_MISTAKES = {"28P01", "28000", "3D000", "42501"}


def fault_of(code: str) -> Fault:
    """Return the fault that a SQLSTATE means."""
    return _BY_CODE.get(code, _FAILED)


@contextmanager
def explain_failures(url: DatabaseUrl, host: Host) -> Iterator[None]:
    """Turn errors while opening a connection into StorageUnavailable."""
    try:
        yield
    except asyncpg.PostgresError as error:
        raise _from_postgres(error, host) from error
    except TimeoutError as error:
        # Before OSError, of which it is one kind.
        raise _unavailable(_NO_ANSWER, f"PostgreSQL at {host} did not answer in time") from error
    except ssl.SSLCertVerificationError as error:
        raise AccessRefused(
            f"the certificate of {host} is not trusted: {error.verify_message};"
            " correct sslrootcert or sslmode in the database URL",
            public=f"{_REFUSED}; try again",
            reason="access_refused",
        ) from error
    except socket.gaierror as error:
        # Also a server that is not started yet and has no DNS name.
        raise _unavailable(
            _UNREACHABLE,
            f"host {host.name!r} of the database URL does not resolve: {error.strerror};"
            " correct the host",
        ) from error
    except OSError as error:
        raise _from_system(error, url, host) from error
    except (asyncpg.InterfaceError, asyncpg.InternalClientError, ValueError) as error:
        raise _unavailable(
            _UNREACHABLE, f"PostgreSQL at {host} cannot be used: {_text_of(error)}"
        ) from error


def _from_postgres(error: asyncpg.PostgresError, host: Host) -> StorageUnavailable:
    code = error.sqlstate or ""
    fault = fault_of(code)
    # The server's sentence names role, database and whether the connection was encrypted.
    text = f"PostgreSQL at {host} refused the connection: {_text_of(error)}"
    if code in _MISTAKES:
        return AccessRefused(
            f"{text}; {fault.advice}", public=f"{fault.public}; try again", reason=fault.reason
        )
    return _unavailable(fault, text)


def _from_system(error: OSError, url: DatabaseUrl, host: Host) -> StorageUnavailable:
    if type(error) is ConnectionError and url.sslmode not in (None, "disable", "allow", "prefer"):
        # The driver has no error class for a server that answers without TLS.
        return _unavailable(
            _UNREACHABLE,
            f"{host} did not agree to TLS, which sslmode={url.sslmode} demands: {_text_of(error)};"
            " switch ssl on there, or change sslmode in the database URL",
        )
    # The event loop wraps the system's text.
    reason = os.strerror(error.errno) if error.errno else _text_of(error)
    return _unavailable(_UNREACHABLE, f"no PostgreSQL answers at {host}: {reason}")


def _unavailable(fault: Fault, text: str) -> StorageUnavailable:
    return StorageUnavailable(
        f"{text}; {fault.advice}",
        public=f"{fault.public}; try again",
        reason=fault.reason,
        # A refused new connection says nothing about the open ones.
        is_suspicious=fault.reason != NO_SLOT,
    )


def _text_of(error: BaseException) -> str:
    """Return the first line: without the DETAIL and HINT that str(error) appends."""
    return (str(error) or type(error).__name__).splitlines()[0]
