-- Lock the operation lines of these partitions until commit. Only the holder of a line may add to it.
-- Locks: an advisory lock per partition, in id order.
CREATE OR REPLACE FUNCTION queen.lock_lines(p_partition_ids uuid[])
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(u.id::text, 1))
    FROM (SELECT s.id FROM unnest(p_partition_ids) AS s (id) ORDER BY s.id) u;
END
$$;
