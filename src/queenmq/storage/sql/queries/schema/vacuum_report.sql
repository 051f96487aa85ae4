-- The queries of `queen db vacuum-report`: dead rows, autovacuum and sizes of our tables. They only read.

-- name: tables
-- $1: the names of our relations.
WITH t AS (
    SELECT c.oid, CASE WHEN n.nspname = 'queen' THEN '' ELSE n.nspname || '.' END || c.relname AS name, c.reltuples, c.relfrozenxid, s.*,
           coalesce(o.threshold, current_setting('autovacuum_vacuum_threshold'))::float8 AS threshold,
           coalesce(o.scale, current_setting('autovacuum_vacuum_scale_factor'))::float8 AS scale,
           coalesce(o.enabled, 'true')::boolean AS is_enabled,
           -- The last vacuum counted more rows, and the counters do not know of it: a crash sets them to 0.
           c.reltuples > s.n_live_tup
               AND coalesce(s.last_vacuum, s.last_autovacuum, s.last_analyze, s.last_autoanalyze) IS NULL AS is_reset
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_stat_user_tables s ON s.relid = c.oid
    CROSS JOIN LATERAL (
        SELECT max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_threshold') AS threshold,
               max(option_value) FILTER (WHERE option_name = 'autovacuum_vacuum_scale_factor') AS scale,
               max(option_value) FILTER (WHERE option_name = 'autovacuum_enabled') AS enabled
        FROM pg_options_to_table(c.reloptions)
    ) o
    WHERE n.nspname || '.' || c.relname = ANY ($1::text[]) AND c.relkind = 'r'
)
SELECT name AS "table",
       CASE WHEN is_reset THEN reltuples::bigint ELSE n_live_tup END AS "liveRows",
       is_reset AS "isEstimate", n_dead_tup AS "deadRows",
       round(threshold + scale * greatest(reltuples, 0))::bigint AS "vacuumAtDeadRows",
       is_enabled AS "isAutovacuumed",
       pg_table_size(oid) AS "tableBytes", pg_indexes_size(oid) AS "indexBytes",
       pg_total_relation_size(oid) AS "totalBytes",
       n_tup_upd AS "updates", n_tup_hot_upd AS "hotUpdates",
       vacuum_count + autovacuum_count AS "vacuums",
       to_char(greatest(last_vacuum, last_autovacuum) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
           AS "lastVacuum",
       to_char(greatest(last_analyze, last_autoanalyze) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
           AS "lastAnalyze",
       age(relfrozenxid) AS "xidAge"
FROM t
ORDER BY pg_total_relation_size(oid) DESC, name;

-- name: server
SELECT current_setting('autovacuum')::boolean AS "isAutovacuumOn",
       current_setting('autovacuum_naptime') AS "autovacuumNaptime",
       current_setting('autovacuum_freeze_max_age')::bigint AS "freezeMaxAge",
       pg_database_size(current_database()) AS "databaseBytes";

-- name: holders
SELECT 'transaction of process ' || pid || coalesce(' (' || nullif(application_name, '') || ')', '') AS "what",
       age(backend_xmin) AS "xidAge", extract(epoch FROM now() - xact_start)::float8 AS "seconds"
FROM pg_stat_activity
WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND datname = current_database()
UNION ALL
SELECT 'replication slot ' || slot_name, age(coalesce(xmin, catalog_xmin)), NULL
FROM pg_replication_slots WHERE coalesce(xmin, catalog_xmin) IS NOT NULL
UNION ALL
SELECT 'prepared transaction ' || gid, age(transaction), extract(epoch FROM now() - prepared)::float8
FROM pg_prepared_xacts WHERE database = current_database()
ORDER BY 2 DESC LIMIT 5;
