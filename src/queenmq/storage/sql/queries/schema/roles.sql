-- Roles with least privilege. Their names begin with the setting queen.role_prefix.

-- name: set_prefix
-- $2: relations in our schemas that are not ours.
SELECT set_config('queen.role_prefix', $1, true), set_config('queen.foreign_relations', $2::oid[]::text, true);

-- name: create_roles
-- Without a password no client can log in as one of them.
DO $$
DECLARE
    v_part text;
    v_role text;
BEGIN
    FOREACH v_part IN ARRAY ARRAY['broker', 'producer', 'reader', 'admin'] LOOP
        v_role := current_setting('queen.role_prefix') || v_part;
        IF to_regrole(quote_ident(v_role)) IS NULL THEN
            EXECUTE format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS', v_role);
        END IF;
    END LOOP;
END
$$;

-- name: own_schema
-- The broker migrates both schemas, so it owns them and all that is ours in them. Of the database it needs no more
-- than CREATE.
DO $$
DECLARE
    v_role text := current_setting('queen.role_prefix') || 'broker';
    v_one record;
BEGIN
    EXECUTE format('GRANT CONNECT, CREATE, TEMPORARY ON DATABASE %I TO %I', current_database(), v_role);
    FOR v_one IN SELECT n.nspname AS name FROM pg_namespace n WHERE n.nspname IN ('queen', 'queen_streams')
    LOOP
        EXECUTE format('ALTER SCHEMA %I OWNER TO %I', v_one.name, v_role);
    END LOOP;
    FOR v_one IN
        SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' WHEN 'c' THEN 'TYPE' ELSE 'TABLE' END AS kind,
               c.oid::regclass::text AS name
        FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('queen', 'queen_streams') AND c.relkind IN ('r', 'p', 'v', 'S', 'c')
          AND c.oid <> ALL (current_setting('queen.foreign_relations')::oid[])
          -- The sequence of an identity column goes with its table.
          AND NOT EXISTS (SELECT FROM pg_depend d
                          WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')
                            AND d.refclassid = 'pg_class'::regclass AND c.relkind = 'S')
    LOOP
        EXECUTE format('ALTER %s %s OWNER TO %I', v_one.kind, v_one.name, v_role);
    END LOOP;
    FOR v_one IN
        SELECT p.oid::regprocedure::text AS name FROM pg_proc p
        WHERE p.pronamespace = 'queen'::regnamespace
          AND EXISTS (SELECT FROM queen.schema_files f
                      WHERE f.name = 'functions/' || p.proname
                         OR starts_with(f.name, format('leftovers/queen.%I(', p.proname)))
    LOOP
        EXECUTE format('ALTER ROUTINE %s OWNER TO %I', v_one.name, v_role);
    END LOOP;
END
$$;

-- name: grant_rights
DO $$
DECLARE
    v_prefix text := current_setting('queen.role_prefix');
    v_producer text := quote_ident(v_prefix || 'producer');
    v_reader text := quote_ident(v_prefix || 'reader');
    v_admin text := quote_ident(v_prefix || 'admin');
    v_role text;
    v_own text;
BEGIN
    FOREACH v_role IN ARRAY ARRAY[v_producer, v_reader, v_admin] LOOP
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %s', current_database(), v_role);
        EXECUTE format('GRANT USAGE ON SCHEMA queen TO %s', v_role);
    END LOOP;
    EXECUTE format('GRANT EXECUTE ON FUNCTION queen.push TO %s', v_producer);
    EXECUTE format('GRANT SELECT ON queen.queues, queen.partitions, queen.partition_lookup, queen.messages,
                    queen.partition_consumers, queen.dead_letter_queue TO %s', v_reader);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON queen.spark_positions TO %s', v_reader);
    EXECUTE format('GRANT EXECUTE ON FUNCTION queen.mark_position, queen.find_deleted_queues, queen.start_pipeline_run,
                    queen.note_pipeline_run TO %s', v_reader);
    -- An operator may read everything but the hashes of tokens, repair lookup rows, and create tokens.
    IF to_regnamespace('queen_streams') IS NOT NULL THEN
        EXECUTE format('GRANT USAGE ON SCHEMA queen_streams TO %s', v_admin);
    END IF;
    SELECT string_agg(c.oid::regclass::text, ', ') INTO v_own
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('queen', 'queen_streams') AND c.relkind IN ('r', 'p', 'v')
      AND c.oid <> ALL (current_setting('queen.foreign_relations')::oid[]);
    EXECUTE format('GRANT SELECT ON %s TO %s', v_own, v_admin);
    EXECUTE format('REVOKE SELECT ON queen.api_tokens FROM %s', v_admin);
    EXECUTE format('GRANT SELECT (id, kind, name, shown, subject, role, queues, verbs, created_at, created_by, expires_at,
                    last_used_at, revoked_at, parent_id) ON queen.api_tokens TO %s', v_admin);
    EXECUTE format('GRANT INSERT ON queen.api_tokens, queen.audit_log TO %s', v_admin);
    EXECUTE format('GRANT UPDATE (revoked_at) ON queen.api_tokens TO %s', v_admin);
    EXECUTE format('GRANT INSERT, UPDATE ON queen.partition_lookup TO %s', v_admin);
    -- Even the weakest row lock needs the right to update some column of the row.
    EXECUTE format('GRANT UPDATE (created_at) ON queen.queues TO %s', v_admin);
    EXECUTE format('GRANT EXECUTE ON FUNCTION queen.resync_lookup, queen.new_partition_number TO %s', v_admin);
END
$$;

-- name: grant_statistics
-- Shows other users' transactions. Only a superuser, or a role with the admin option, can grant it.
DO $$
BEGIN
    EXECUTE format('GRANT pg_read_all_stats TO %I, %I', current_setting('queen.role_prefix') || 'reader',
                   current_setting('queen.role_prefix') || 'admin');
EXCEPTION WHEN insufficient_privilege THEN
    NULL;
END
$$;
