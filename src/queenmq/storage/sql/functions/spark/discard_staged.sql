-- Remove the rows of stages that are not going to be published, or that just were.
--
-- Arguments: the stages. Result: the number of rows removed.
-- Tables: spark_staging (delete).
-- Locks: the rows, whose only other user is the sweep, which skips what is locked.
CREATE OR REPLACE FUNCTION queen.discard_staged(p_stage_ids uuid[])
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_removed bigint;
BEGIN
    DELETE FROM queen.spark_staging WHERE stage_id = ANY (p_stage_ids);
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    RETURN v_removed;
END
$$;
