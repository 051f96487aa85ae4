-- How far consumer groups are behind: a row per cursor, and per partition that a group of the queue has not
-- visited yet and that has messages for it. p_consumer_group NULL: all groups.
--
-- Result: offset_lag counts the messages after the group's position (group_positions) that are kept, due or not;
-- oldest_at is when the first of them was created (NULL: there is none). total_consumed is NULL where the group
-- has no cursor. Reads one message per row that has any left. Takes no locks.
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
    SELECT a.consumer_group, a.queue_id, a.partition_id, a.last_seq - a.after_seq - g.removed, m.created_at,
           a.last_consumed_at, a.total_consumed, coalesce(a.lease_expires_at > now(), false)
    FROM queen.group_positions(NULL, p_consumer_group) a
    LEFT JOIN (
        SELECT x.partition_id, array_agg(x.seq) AS seqs FROM queen.removed_messages x GROUP BY x.partition_id
    ) r ON r.partition_id = a.partition_id
    CROSS JOIN LATERAL (SELECT count(*) AS removed FROM unnest(r.seqs) AS u (seq) WHERE u.seq > a.after_seq) g
    LEFT JOIN LATERAL (
        SELECT x.created_at FROM queen.messages x
        WHERE x.partition_id = a.partition_id AND x.seq > a.after_seq AND a.last_seq > a.after_seq
        ORDER BY x.seq LIMIT 1
    ) m ON true
$$;
