-- Wait for the cycles of these partitions, and hold new ones up: before the partitions are locked and deleted.
-- Locks: rows of (query, partition) pairs, in that order, as cycles do.
CREATE OR REPLACE FUNCTION queen.lock_pairs(p_partition_ids uuid[])
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM queen_streams.partitions t WHERE t.partition_id = ANY (p_partition_ids)
    ORDER BY t.query_id, t.partition_id FOR UPDATE;
END
$$;
