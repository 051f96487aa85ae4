-- name: lock
SELECT pg_advisory_xact_lock(5136812741231);

-- name: fix_search_path
-- Objects that are created here must not depend on the search path of the session, nor find objects that others
-- put there.
SET LOCAL search_path = pg_catalog, pg_temp;

-- name: find_bookkeeping
-- Return the table that records applied files: the current one, or that of the first release.
SELECT c.relname::text AS name FROM pg_class c
WHERE c.relnamespace = to_regnamespace('queen') AND c.relkind = 'r'
  AND c.relname IN ('schema_files', 'schema_migrations');

-- name: create_bookkeeping
CREATE SCHEMA IF NOT EXISTS queen;
CREATE TABLE queen.schema_files (
    name text PRIMARY KEY,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    level integer NOT NULL
);
CREATE TABLE queen.schema_state (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    level integer NOT NULL,
    oldest_level integer NOT NULL CHECK (oldest_level BETWEEN 1 AND level),
    release text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now()
);

-- name: adopt_first_release
INSERT INTO queen.schema_files (name, checksum, applied_at, level)
SELECT name, checksum, applied_at, 1 FROM queen.schema_migrations;
DROP TABLE queen.schema_migrations;

-- name: state
SELECT level, oldest_level, release FROM queen.schema_state;

-- name: record_state
INSERT INTO queen.schema_state (level, oldest_level, release) VALUES ($1, $2, $3)
ON CONFLICT (is_only) DO UPDATE
SET level = excluded.level, oldest_level = excluded.oldest_level, release = excluded.release,
    changed_at = now();

-- name: applied
SELECT name, checksum, level FROM queen.schema_files;

-- name: record
INSERT INTO queen.schema_files (name, checksum, level) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE
SET checksum = excluded.checksum, level = excluded.level, applied_at = now();

-- name: forget
DELETE FROM queen.schema_files WHERE name = $1;

-- name: function_versions
SELECT p.oid::regprocedure::text AS signature,
       p.proargtypes::regtype[]::text[] AS types,
       ARRAY(SELECT coalesce(a.name, '') FROM unnest(p.proargnames, p.proargmodes::text[])
                 WITH ORDINALITY AS a (name, mode, n)
             WHERE coalesce(a.mode, 'i') IN ('i', 'b', 'v') ORDER BY a.n) AS names,
       p.pronargdefaults::integer AS default_count,
       CASE WHEN p.proallargtypes IS NULL OR pg_get_function_result(p.oid) LIKE 'TABLE%'
            THEN pg_get_function_result(p.oid)
            ELSE format('%s (%s)', pg_get_function_result(p.oid), o.columns) END AS result
FROM pg_proc p
CROSS JOIN LATERAL (
    SELECT string_agg(a.name || ' ' || a.type::regtype, ', ' ORDER BY a.n) AS columns
    FROM unnest(p.proargnames, p.proargmodes::text[], p.proallargtypes)
        WITH ORDINALITY AS a (name, mode, type, n)
    WHERE a.mode IN ('o', 'b')
) o
WHERE p.pronamespace = 'queen'::regnamespace AND p.proname = $1
ORDER BY 1;

-- name: close_function
-- Return the statements that revoke a function from the public, and with $2 from all roles but its owner.
SELECT format('REVOKE ALL ON FUNCTION %s FROM %s', p.oid::regprocedure,
              CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END)
FROM pg_proc p CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
WHERE p.oid = $1::text::regprocedure AND a.grantee <> p.proowner AND (a.grantee = 0 OR $2::boolean);

-- name: copy_grants
-- Return the statements that grant a function ($2) to the roles that may call another one ($1).
SELECT format('GRANT EXECUTE ON FUNCTION %s TO %s', $2::text::regprocedure, a.grantee::regrole)
FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) a
WHERE p.oid = $1::text::regprocedure AND a.grantee NOT IN (0, p.proowner);

-- name: server_version
SELECT current_setting('server_version_num')::integer;
