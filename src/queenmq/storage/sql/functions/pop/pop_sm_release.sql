-- End leases before they expire, because the caller has left or the range turned out to be empty.
--
-- Arguments: parallel arrays. Only the lease with the given id is ended; anything else is left alone.
-- Where p_pass_seqs has a number, everything up to it was deleted before it was delivered: the cursor moves to
-- the next message that is there, however far that is; a NULL lease id then stands for "not leased".
-- Elsewhere the messages are deliverable again at once. Counts neither as a retry nor as an expiry.
-- Result: the pairs that were released.
-- Locks: cursor rows in (partition id, group) order; waits at most p_lock_timeout_ms for each (NULL: for ever).
CREATE OR REPLACE FUNCTION queen.pop_sm_release(
    p_partition_ids uuid[],
    p_consumer_groups text[],
    p_lease_ids uuid[],
    p_pass_seqs bigint[],
    p_lock_timeout_ms integer DEFAULT NULL
)
RETURNS TABLE (partition_id uuid, consumer_group text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    IF p_lock_timeout_ms IS NOT NULL THEN
        PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    END IF;
    RETURN QUERY
    WITH given AS (
        SELECT u.* FROM unnest(p_partition_ids, p_consumer_groups, p_lease_ids, p_pass_seqs)
            AS u (partition_id, consumer_group, lease_id, pass_seq)
    ), locked AS (
        SELECT pc.partition_id, pc.consumer_group, pc.queue_id, pc.cursor_seq, g.pass_seq
        FROM given g
        JOIN queen.partition_consumers pc
            ON pc.partition_id = g.partition_id AND pc.consumer_group = g.consumer_group
        WHERE (pc.lease_id = g.lease_id AND pc.lease_expires_at IS NOT NULL)
           OR (g.lease_id IS NULL AND pc.lease_expires_at IS NULL AND g.pass_seq IS NOT NULL)
        ORDER BY pc.partition_id, pc.consumer_group
        FOR UPDATE OF pc
    ), placed AS (
        SELECT k.partition_id, k.consumer_group, k.queue_id, k.cursor_seq,
               coalesce(m.seq - 1, l.last_seq) AS pass_seq
        FROM locked k
        LEFT JOIN queen.partition_lookup l ON l.partition_id = k.partition_id AND k.pass_seq IS NOT NULL
        LEFT JOIN LATERAL (
            SELECT x.seq FROM queen.messages x
            WHERE x.partition_id = l.partition_id AND x.seq > k.pass_seq ORDER BY x.seq LIMIT 1
        ) m ON true
    ), noted AS MATERIALIZED (
        SELECT k.partition_id, k.consumer_group, k.pass_seq,
               CASE WHEN q.ack_history THEN queen.note_passed(
                   k.queue_id, k.partition_id, k.consumer_group, k.cursor_seq, k.pass_seq, k.pass_seq, NULL,
                   clock_timestamp(), 'removed', 0, 0) END AS is_noted
        FROM placed k
        LEFT JOIN queen.queues q ON q.id = k.queue_id AND k.pass_seq > k.cursor_seq
    )
    UPDATE queen.partition_consumers pc
    SET lease_id = NULL,
        lease_expires_at = NULL,
        cursor_seq = greatest(pc.cursor_seq, k.pass_seq),
        retry_count = CASE WHEN pc.retry_seq <= k.pass_seq THEN 0 ELSE pc.retry_count END,
        retry_seq = CASE WHEN pc.retry_seq <= k.pass_seq THEN NULL ELSE pc.retry_seq END
    FROM noted k
    WHERE pc.partition_id = k.partition_id AND pc.consumer_group = k.consumer_group
    RETURNING pc.partition_id, pc.consumer_group::text;
END
$$;
