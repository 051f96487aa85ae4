"""The health of PostgreSQL, from its own statistics."""

from __future__ import annotations

from typing import Any

from queenmq.wire.shape import Answer, Number


class CacheUse(Answer):
    """Blocks found in PostgreSQL's buffers, blocks read, and the share of the first in percent."""

    blocks_hit: int
    blocks_read: int
    hit_ratio: Number | None


class DatabaseCache(CacheUse):
    """The same of the whole database, and its transactions."""

    commits: int
    rollbacks: int
    deadlocks: int
    temp_bytes: int
    bytes: int


class TableCache(CacheUse):
    """The same of one table."""

    table: str


class IndexCache(CacheUse):
    """The same of one index."""

    table: str
    index: str


class CacheSummary(Answer):
    """All tables and all indexes, added up."""

    tables: CacheUse
    indexes: CacheUse


class DeadTuples(Answer):
    """Rows of a table that autovacuum has yet to remove."""

    table: str
    live_rows: int
    dead_rows: int
    last_vacuum: str | None


class HotUpdates(Answer):
    """Updates of a table, and those that touched no index."""

    table: str
    updates: int
    hot_updates: int


class ActiveQuery(Answer):
    """A query that runs now."""

    pid: int
    application: str
    state: str
    wait_type: str
    wait_event: str
    seconds: Number | None
    query: str


class AutovacuumState(Answer):
    """The vacuum state of a table."""

    table: str
    is_autovacuumed: bool
    vacuums: int
    vacuum_at_dead_rows: int
    last_vacuum: str | None
    xid_age: int


class TableSize(Answer):
    """Bytes of a table and its indexes."""

    table: str
    table_bytes: int
    index_bytes: int
    total_bytes: int


class XminHolder(Answer):
    """A session or slot that keeps dead rows from being removed."""

    what: str
    xid_age: int
    seconds: Number | None


class SlowStatement(Answer):
    """A statement of Queen with its constants replaced, and its total cost."""

    query: str
    calls: int
    total_ms: Number
    mean_ms: Number
    max_ms: Number
    rows: int


class PostgresStats(Answer):
    """Caches, dead rows, autovacuum, queries and sizes of the broker's database."""

    timestamp: str
    database: str
    database_cache: DatabaseCache
    table_cache: list[TableCache]
    index_cache: list[IndexCache]
    cache_summary: CacheSummary
    dead_tuples: list[DeadTuples]
    hot_updates: list[HotUpdates]
    active_queries: list[ActiveQuery]
    autovacuum_status: list[AutovacuumState]
    buffer_config: dict[str, str]
    #: Always empty: it needs an extension that only a superuser can install.
    buffer_usage: list[Any]
    table_sizes: list[TableSize]
    xmin_holders: list[XminHolder]
    #: None where pg_stat_statements is not there.
    slow_statements: list[SlowStatement] | None = None
