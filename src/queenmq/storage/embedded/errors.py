"""Errors of the embedded server, each with a sentence that says what to do."""

from __future__ import annotations

from queenmq.errors import QueenError


class EmbeddedPostgresError(QueenError):
    """An operation of the embedded PostgreSQL server failed."""


class BinariesMissing(EmbeddedPostgresError):
    """The package with the PostgreSQL binaries is missing or incomplete."""


class DataDirInUse(EmbeddedPostgresError):
    """Another live process owns the data directory."""


class DataDirUnusable(EmbeddedPostgresError):
    """The data directory cannot be created, read or written by this user."""


class ClusterVersionMismatch(EmbeddedPostgresError):
    """The cluster was written by another major version of PostgreSQL."""


class NoClusterFound(EmbeddedPostgresError):
    """There is no embedded cluster in the directory."""


class RunAsImpossible(EmbeddedPostgresError):
    """We run as root and no unprivileged account can run the server here."""


class PostgresFailed(EmbeddedPostgresError):
    """The server, or a tool that prepares it, ended with an error."""
