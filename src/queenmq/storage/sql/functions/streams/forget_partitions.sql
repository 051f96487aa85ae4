-- Remove what stream queries have kept of partitions that are being deleted. The queries themselves stay.
-- Tables: queen_streams.state, queen_streams.partitions (delete). The caller has called lock_pairs for these
-- partitions before it locked any of them.
CREATE OR REPLACE FUNCTION queen.forget_partitions(p_partition_ids uuid[])
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    WITH gone AS (
        DELETE FROM queen_streams.partitions t WHERE t.partition_id = ANY (p_partition_ids)
        RETURNING t.query_id, t.partition_id
    )
    DELETE FROM queen_streams.state s USING gone g
    WHERE s.query_id = g.query_id AND s.partition_id = g.partition_id;
END
$$;
