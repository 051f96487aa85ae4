-- How far consumer groups are behind, a row per cursor. p_consumer_group NULL: all groups.
--
-- Result: offset_lag counts the messages after the cursor that are kept; oldest_at is when the first of them was
-- created (NULL: there is none). Reads one message per partition that has any left. Takes no locks.
-- Plain SQL without settings of its own, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.group_lags(p_consumer_group text)
RETURNS TABLE (
    consumer_group text,
    queue_id uuid,
    partition_id uuid,
    offset_lag bigint,
    oldest_at timestamptz,
    last_consumed_at timestamptz,
    total_consumed bigint,
    is_leased boolean
)
LANGUAGE sql STABLE
AS $$
    SELECT c.consumer_group::text, c.queue_id, c.partition_id, l.last_seq - a.seq - g.removed, m.created_at,
           c.last_consumed_at, c.total_consumed, coalesce(c.lease_expires_at > now(), false)
    FROM queen.partition_consumers c
    JOIN queen.partition_lookup l ON l.partition_id = c.partition_id
    CROSS JOIN LATERAL (SELECT greatest(c.cursor_seq, l.first_seq - 1) AS seq) a
    LEFT JOIN (
        SELECT x.partition_id, array_agg(x.seq) AS seqs FROM queen.removed_messages x GROUP BY x.partition_id
    ) r ON r.partition_id = l.partition_id
    CROSS JOIN LATERAL (SELECT count(*) AS removed FROM unnest(r.seqs) AS u (seq) WHERE u.seq > a.seq) g
    LEFT JOIN LATERAL (
        SELECT x.created_at FROM queen.messages x
        WHERE x.partition_id = c.partition_id AND x.seq > a.seq AND l.last_seq > a.seq
        ORDER BY x.seq LIMIT 1
    ) m ON true
    WHERE p_consumer_group IS NULL OR c.consumer_group = p_consumer_group
$$;
