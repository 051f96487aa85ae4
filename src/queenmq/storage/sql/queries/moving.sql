-- The queries that copy a database to another server. Statements that contain names are built here, quoted.

-- name: take_turn
-- One move of a database at a time. Held to the end of the transaction, which is idle for as long as the copy takes.
SELECT pg_try_advisory_xact_lock(hashtextextended('queen move', 0))
FROM set_config('idle_in_transaction_session_timeout', '0', true);

-- name: facts
SELECT current_setting('server_encoding') AS encoding, current_setting('server_version') AS version,
       to_regclass('queen.queues') IS NOT NULL AND to_regclass('queen_streams.queries') IS NOT NULL AS has_schema;

-- name: schema_files
SELECT name FROM queen.schema_files WHERE name NOT LIKE '%(%' ORDER BY name;

-- name: is_used
SELECT EXISTS (SELECT FROM queen.queues) OR EXISTS (SELECT FROM queen.messages)
    OR EXISTS (SELECT FROM queen.consumer_groups_metadata) OR EXISTS (SELECT FROM queen_streams.queries);

-- name: database_id
SELECT value #>> '{}' FROM queen.system_state WHERE name = 'database_id';

-- name: tables
-- Return every table to copy: the query to read, the target columns, the values to compare, and the tables it
-- refers to. Transaction numbers and snapshots mean nothing on another server, so such columns get their defaults
-- there. Leave out the schema's own tables, switches, positions and marks of readers, and rows that are staged or
-- claimed.
SELECT c.oid::regclass::text AS name, n.nspname::text AS schema, c.relname::text AS relation,
       a.names AS columns, greatest(c.reltuples, 0)::bigint AS estimate,
       format('SELECT %s FROM %s t', a.reads, c.oid::regclass) AS reads,
       format('SELECT count(*)::bigint AS count, coalesce(sum((''x'' || left(md5(ROW(%s)::text), 15))::bit(60)::bigint), 0)'
              '::text AS checksum FROM %s t', a.compared, c.oid::regclass) AS compares,
       format('TRUNCATE %s CASCADE', c.oid::regclass) AS empties,
       ARRAY(SELECT DISTINCT f.confrelid::regclass::text FROM pg_constraint f
             WHERE f.conrelid = c.oid AND f.contype = 'f' AND f.confrelid <> c.oid) AS refers_to
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT array_agg(x.attname::text ORDER BY x.attnum) AS names,
           string_agg(CASE
               WHEN c.relname = 'consumer_groups_metadata' AND x.attname = 'subscription_mode' THEN '''timestamp'''
               WHEN c.relname = 'consumer_groups_metadata' AND x.attname = 'subscription_timestamp'
                   -- Not after the first message that the group's snapshot does not see.
                   THEN 'least(t.subscription_timestamp, (SELECT min(m.created_at) FROM queen.queues q'
                        ' JOIN queen.messages m ON m.queue_id = q.id'
                        ' AND m.xid >= pg_snapshot_xmin(t.start_snapshot) WHERE q.name = t.queue_name'
                        ' AND NOT pg_visible_in_snapshot(m.xid, t.start_snapshot)))'
               ELSE format('t.%I', x.attname) END, ', ' ORDER BY x.attnum) AS reads,
           -- Floating point numbers may have been computed, and a start may have been moved.
           string_agg(format('t.%I', x.attname), ', ' ORDER BY x.attnum) FILTER (
               WHERE NOT (c.relname = 'consumer_groups_metadata' AND x.attname LIKE 'subscription%')) AS compared
    FROM pg_attribute x
    WHERE x.attrelid = c.oid AND x.attnum > 0 AND NOT x.attisdropped AND x.attgenerated = ''
      AND x.atttypid NOT IN ('xid8'::regtype, 'pg_snapshot'::regtype)
) a
WHERE n.nspname IN ('queen', 'queen_streams') AND c.relkind = 'r'
  AND c.relname <> ALL ('{schema_files,schema_state,system_state,spark_positions,reader_marks,spark_staging,'
                        'archive_positions,deleted_queues,history_writers}')
ORDER BY 1;

-- name: lock_tables
-- Stop every writer, but no reader. Switches and the probe of brokers stay writable. $1: how long to wait, in ms.
SELECT format('SET LOCAL lock_timeout = %s; LOCK TABLE %s IN SHARE MODE', $1::integer, string_agg(c.oid::regclass::text, ', ' ORDER BY c.oid::regclass::text))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('queen', 'queen_streams') AND c.relkind = 'r' AND c.relname <> 'system_state';

-- name: prepare_target
-- The trigger of messages would count them once more, and times are compared as text. The path makes
-- names of relations the same on both sides.
SELECT set_config('search_path', 'pg_catalog, pg_temp', true),
       set_config('queen.tracks_lookup', 'on', true), set_config('timezone', 'UTC', true),
       set_config('statement_timeout', '0', true), set_config('synchronous_commit', 'on', true);

-- name: sequences
SELECT c.oid::regclass::text AS name,
       (SELECT s.last_value FROM pg_sequences s
        WHERE s.schemaname = n.nspname AND s.sequencename = c.relname) AS last_value
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('queen', 'queen_streams') AND c.relkind = 'S' ORDER BY 1;

-- name: set_sequence
SELECT setval($1::text::regclass, $2);

-- name: paused_groups
SELECT name, value::text FROM queen.system_state WHERE name LIKE 'paused\_group:%';

-- name: adopt
-- From now on the spools of brokers belong to the new database.
UPDATE queen.system_state SET value = to_json($1::text), updated_at = now() WHERE name = 'database_id';

-- name: analyze
ANALYZE queen.messages, queen.partitions, queen.partition_lookup, queen.partition_consumers, queen.queues;
