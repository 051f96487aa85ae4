-- End leases before their time: the caller has gone, or the range turned out to hold nothing.
--
-- Arguments: parallel arrays. Only the lease with the given id is ended; anything else is left alone.
-- Where p_pass_seqs has a number the cursor moves up to it (an empty range is passed), elsewhere the
-- messages are deliverable again at once. Counts neither as a retry nor as an expiry.
-- Result: the pairs that were released.
-- Locks: cursor rows in (partition id, group) order.
CREATE OR REPLACE FUNCTION queen.pop_sm_release(
    p_partition_ids uuid[],
    p_consumer_groups text[],
    p_lease_ids uuid[],
    p_pass_seqs bigint[]
)
RETURNS TABLE (partition_id uuid, consumer_group text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    WITH given AS (
        SELECT u.* FROM unnest(p_partition_ids, p_consumer_groups, p_lease_ids, p_pass_seqs)
            AS u (partition_id, consumer_group, lease_id, pass_seq)
    ), locked AS (
        SELECT pc.partition_id, pc.consumer_group, g.pass_seq
        FROM given g
        JOIN queen.partition_consumers pc
            ON pc.partition_id = g.partition_id AND pc.consumer_group = g.consumer_group
        WHERE pc.lease_id = g.lease_id AND pc.lease_expires_at IS NOT NULL
        ORDER BY pc.partition_id, pc.consumer_group
        FOR UPDATE OF pc
    )
    UPDATE queen.partition_consumers pc
    SET lease_id = NULL,
        lease_expires_at = NULL,
        cursor_seq = greatest(pc.cursor_seq, k.pass_seq),
        retry_count = CASE WHEN pc.retry_seq <= k.pass_seq THEN 0 ELSE pc.retry_count END,
        retry_seq = CASE WHEN pc.retry_seq <= k.pass_seq THEN NULL ELSE pc.retry_seq END
    FROM locked k
    WHERE pc.partition_id = k.partition_id AND pc.consumer_group = k.consumer_group
    RETURNING pc.partition_id, pc.consumer_group::text;
END
$$;
