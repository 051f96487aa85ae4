-- Of these partitions, the ones that wait for a batch of Spark: a transaction holds the row, and a batch is
-- being published to the queue.
--
-- Arguments: partitions. Result: those of them, in no order.
-- Reading the locks of the server is not free, so call this only with a reason.
-- Tables: partition_lookup (read).
-- Locks: none is kept. The free rows are taken for a moment, without waiting, and let go again: a push that kept
-- them and then waited for others would lock out of order.
CREATE OR REPLACE FUNCTION queen.find_publishing(p_partition_ids uuid[])
RETURNS uuid[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_candidates uuid[];
    v_found uuid[] := '{}';
BEGIN
    IF coalesce(cardinality(p_partition_ids), 0) = 0 THEN
        RETURN v_found;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_locks k WHERE k.locktype = 'advisory' AND k.mode = 'ShareLock' AND k.granted
                   AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())) THEN
        RETURN v_found;
    END IF;
    SELECT array_agg(l.partition_id) INTO v_candidates
    FROM queen.partition_lookup l
    WHERE l.partition_id = ANY (p_partition_ids)
      AND l.queue_id IN (
        SELECT q.queue_id
        FROM (SELECT DISTINCT x.queue_id FROM queen.partition_lookup x
              WHERE x.partition_id = ANY (p_partition_ids)) q
        JOIN pg_locks k ON (k.classid::bigint << 32 | k.objid::bigint) = queen.publication_key(q.queue_id)
        WHERE k.locktype = 'advisory' AND k.mode = 'ShareLock' AND k.granted AND k.objsubid = 1
          AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()));
    IF v_candidates IS NULL THEN
        RETURN v_found;
    END IF;
    BEGIN
        v_found := queen.find_busy_partitions(v_candidates);
        -- Ends the block, and with it the locks. What was found stays.
        RAISE EXCEPTION 'let go';
    EXCEPTION WHEN raise_exception THEN
        RETURN v_found;
    END;
END
$$;
