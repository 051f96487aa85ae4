-- name: lock
SELECT pg_advisory_xact_lock(5136812741231);

-- name: bootstrap
CREATE SCHEMA IF NOT EXISTS queen;
CREATE TABLE IF NOT EXISTS queen.schema_migrations (
    name text PRIMARY KEY,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: applied
SELECT name, checksum FROM queen.schema_migrations;

-- name: record
INSERT INTO queen.schema_migrations (name, checksum) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, applied_at = now();

-- name: forget
DELETE FROM queen.schema_migrations WHERE name = $1;

-- name: drop_function
SELECT format('DROP FUNCTION %s', p.oid::regprocedure)
FROM pg_proc p WHERE p.pronamespace = 'queen'::regnamespace AND p.proname = $1;

-- name: server_version
SELECT current_setting('server_version_num')::integer;
