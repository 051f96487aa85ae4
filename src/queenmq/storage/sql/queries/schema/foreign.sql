-- Relations in our schemas that are not ours, and the search path that puts new ones there.

-- name: has_schema
SELECT to_regclass('queen.schema_files') IS NOT NULL;

-- name: find
-- $1: the names of our relations, $2: our migrations. After the migration of a later release, return nothing: its
-- relations are not in $1. A sequence that belongs to a column goes with its table.
SELECT c.oid, format('%I.%I', n.nspname, c.relname) AS name, c.relkind IN ('r', 'p', 'S') AS holds_data
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('queen', 'queen_streams') AND c.relkind IN ('r', 'p', 'v', 'S', 'c', 'm', 'f')
  AND n.nspname || '.' || c.relname <> ALL ($1::text[])
  AND NOT EXISTS (SELECT FROM pg_depend d
                  WHERE c.relkind = 'S' AND d.classid = 'pg_class'::regclass AND d.objid = c.oid
                    AND d.deptype IN ('a', 'i') AND d.refclassid = 'pg_class'::regclass)
  AND NOT EXISTS (SELECT FROM queen.schema_files f
                  WHERE f.name LIKE 'migrations/%' AND f.name <> ALL ($2::text[]))
ORDER BY 2;

-- name: leaving_path
-- Return the statement that takes schema queen off the search path of this role, if it is there by default: PostgreSQL
-- puts the schema with the name of the role first. Return nothing if a person has chosen a path.
SELECT format('ALTER ROLE %I IN DATABASE %I SET search_path = public', current_user, current_database())
FROM pg_settings
WHERE name = 'search_path' AND source = 'default' AND 'queen' = ANY (current_schemas(false));
