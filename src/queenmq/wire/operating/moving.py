"""Copying the database to another PostgreSQL."""

from __future__ import annotations

from queenmq.wire.shape import Answer, Request


class MigrationTarget(Request):
    """The PostgreSQL to copy to."""

    host: str
    database: str
    user: str
    port: str | int = "5432"
    password: str = ""
    ssl: bool = False


class TargetTested(Answer):
    """The result of a test of the target. `error` says why a copy could not go there."""

    success: bool
    message: str
    version: str | None = None
    error: str | None = None


class MigrationStarted(Answer):
    """A copy that is under way."""

    success: bool
    message: str


class MigrationStatus(Answer, kw_only=True):
    """The progress of the last copy."""

    #: `idle`, `running`, `completed` or `failed`.
    status: str
    phase: str | None = None
    table: str | None = None
    tables_done: int = 0
    tables: int = 0
    bytes_copied: int = 0
    error: str | None = None
    started_at: str | None = None
    updated_at: str | None = None


class TableCompared(Answer):
    """A table on both sides."""

    table: str
    source_count: int
    target_count: int
    match: bool


class MigrationValidated(Answer):
    """The result of comparing both databases."""

    success: bool
    all_match: bool
    tables: list[TableCompared]


class MigrationReset(Answer):
    """The last copy is forgotten."""

    success: bool
    message: str
