-- Stop the start of a broker of the first release, which reads the view schema_migrations first.
--
-- Its migrator would replace and drop the functions of this release. Later releases read schema_state.
-- Result: none, ever. Tables: schema_state (read). Locks: none.
-- Errors: QN030 the caller is a broker of the first release.
CREATE OR REPLACE FUNCTION queen.refuse_first_release()
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_state record;
BEGIN
    SELECT s.level, s.release INTO v_state FROM queen.schema_state s;
    RAISE EXCEPTION 'this Queen is too old for the database, which Queen % has upgraded to schema level %; start that release or a later one',
        v_state.release, v_state.level USING ERRCODE = 'QN030';
END
$$;
