-- Of these partitions, the ones whose row another transaction holds right now.
-- Takes the free rows for the length of the call and waits for nothing.
CREATE OR REPLACE FUNCTION queen.find_busy_partitions(p_partition_ids uuid[])
RETURNS uuid[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_free uuid[];
BEGIN
    v_free := ARRAY(
        SELECT partition_id FROM queen.partition_lookup
        WHERE partition_id = ANY (p_partition_ids)
        ORDER BY partition_id
        FOR NO KEY UPDATE SKIP LOCKED);
    RETURN ARRAY(
        SELECT l.partition_id FROM queen.partition_lookup l
        WHERE l.partition_id = ANY (p_partition_ids) AND l.partition_id <> ALL (v_free));
END
$$;
