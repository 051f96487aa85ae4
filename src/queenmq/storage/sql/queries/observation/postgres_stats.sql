-- The queries of GET /api/v1/analytics/postgres-stats. They only read.

-- name: database_cache
SELECT current_database()::text AS database, blks_hit AS "blocksHit", blks_read AS "blocksRead",
       round(100.0 * blks_hit / nullif(blks_hit + blks_read, 0), 2)::float8 AS "hitRatio",
       xact_commit AS "commits", xact_rollback AS "rollbacks", deadlocks, temp_bytes AS "tempBytes",
       pg_database_size(current_database()) AS "bytes"
FROM pg_stat_database WHERE datname = current_database();

-- name: table_cache
SELECT relname::text AS "table", coalesce(heap_blks_hit, 0) AS "blocksHit", coalesce(heap_blks_read, 0) AS "blocksRead",
       round(100.0 * heap_blks_hit / nullif(heap_blks_hit + heap_blks_read, 0), 2)::float8 AS "hitRatio"
FROM pg_statio_user_tables WHERE schemaname = 'queen'
ORDER BY coalesce(heap_blks_hit + heap_blks_read, 0) DESC, relname LIMIT 50;

-- name: index_cache
SELECT relname::text AS "table", indexrelname::text AS "index", idx_blks_hit AS "blocksHit",
       idx_blks_read AS "blocksRead",
       round(100.0 * idx_blks_hit / nullif(idx_blks_hit + idx_blks_read, 0), 2)::float8 AS "hitRatio"
FROM pg_statio_user_indexes WHERE schemaname = 'queen'
ORDER BY idx_blks_hit + idx_blks_read DESC, indexrelname LIMIT 100;

-- name: active_queries
SELECT pid, coalesce(application_name, '') AS "application", state, coalesce(wait_event_type, '') AS "waitType",
       coalesce(wait_event, '') AS "waitEvent",
       extract(epoch FROM clock_timestamp() - query_start)::float8 AS "seconds", left(query, 200) AS "query"
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'
ORDER BY query_start LIMIT 50;

-- name: buffer_config
-- Format the value for people. A number of 8 kB blocks says little.
SELECT name::text, current_setting(name) AS value FROM pg_settings
WHERE name IN ('shared_buffers', 'effective_cache_size', 'work_mem', 'maintenance_work_mem', 'max_connections',
               'max_wal_size', 'checkpoint_timeout', 'synchronous_commit')
ORDER BY name;

-- name: has_statements
-- Return whether pg_stat_statements is installed, found by name, and loaded. Reading it without the library is an
-- error.
SELECT to_regclass('pg_stat_statements') IS NOT NULL
       AND current_setting('pg_stat_statements.max', true) IS NOT NULL AS is_there;

-- name: slow_statements
-- Return only our own statements whose constants PostgreSQL has replaced. Others may hold a password.
SELECT left(s.query, 2000) AS query, s.calls, round(s.total_exec_time::numeric, 3)::float8 AS "totalMs",
       round(s.mean_exec_time::numeric, 3)::float8 AS "meanMs", round(s.max_exec_time::numeric, 3)::float8 AS "maxMs", s.rows
FROM pg_stat_statements s
WHERE s.dbid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  AND s.query ~* '^(--[^\n]*\n|\s)*(select|with|insert|update|delete)\M' AND s.query LIKE '%queen.%'
ORDER BY s.total_exec_time DESC LIMIT 20;
