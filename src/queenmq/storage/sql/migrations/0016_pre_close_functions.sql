-- Functions are for the roles that were given them, no longer for everybody who may use the schema: with
-- EXECUTE on queen.push alone a role can push and do nothing else.

-- Roles of before keep what they could call, now and in later releases. queen.push now acts with the rights
-- of its owner, so a role gets it only if it could store messages before.
DO $$
DECLARE
    v_role record;
BEGIN
    FOR v_role IN
        SELECT DISTINCT a.grantee::regrole::text AS name,
               has_table_privilege(a.grantee, 'queen.messages', 'INSERT') AS may_push
        FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) a
        WHERE n.nspname = 'queen' AND a.privilege_type = 'USAGE' AND a.grantee NOT IN (0, n.nspowner)
    LOOP
        EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA queen TO %s', v_role.name);
        EXECUTE format('ALTER DEFAULT PRIVILEGES IN SCHEMA queen GRANT EXECUTE ON FUNCTIONS TO %s', v_role.name);
        IF NOT v_role.may_push AND to_regprocedure('queen.push(text, json, text, text, uuid)') IS NOT NULL THEN
            EXECUTE format('REVOKE EXECUTE ON FUNCTION queen.push(text, json, text, text, uuid) FROM %s', v_role.name);
        END IF;
    END LOOP;
END
$$;

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA queen FROM PUBLIC;
