-- Which consumer groups have passed or hold messages: a row per message, by its position in the arguments, and
-- group of its queue (queue_groups).
--
-- Result: has_passed, by the group's cursor or, where it has none in the partition, by its start; leased_until, when
-- the live lease ends in which the group holds the message (NULL: it does not). Takes no locks.
CREATE OR REPLACE FUNCTION queen.message_groups(p_partition_ids uuid[], p_seqs bigint[])
RETURNS TABLE (ordinal bigint, consumer_group text, has_passed boolean, leased_until timestamptz)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT u.n, u.partition_id, u.seq, p.queue_id, m.created_at, m.xid
        FROM unnest(p_partition_ids, p_seqs) WITH ORDINALITY AS u (partition_id, seq, n)
        JOIN queen.partitions p ON p.id = u.partition_id
        LEFT JOIN queen.messages m ON m.partition_id = u.partition_id AND m.seq = u.seq
    ), known AS MATERIALIZED (
        SELECT q.id AS queue_id, g.consumer_group, s.start_time, s.start_snapshot, s.own_ids
        FROM queen.queues q
        CROSS JOIN LATERAL queen.queue_groups(q.id, q.name) g
        CROSS JOIN LATERAL queen.queue_start(q.id, q.name, g.consumer_group) s
        WHERE q.id IN (SELECT a.queue_id FROM asked a)
    )
    SELECT a.n, k.consumer_group,
           CASE WHEN c.partition_id IS NOT NULL THEN c.cursor_seq >= a.seq
                WHEN a.partition_id = ANY (k.own_ids)
                    THEN queen.start_seq(a.partition_id, k.consumer_group) >= a.seq
                ELSE queen.is_before_start(a.created_at, a.xid, k.start_time, k.start_snapshot) END,
           CASE WHEN c.lease_expires_at > clock_timestamp() AND a.seq > c.cursor_seq AND a.seq <= c.lease_end_seq
                THEN c.lease_expires_at END
    FROM asked a
    JOIN known k ON k.queue_id = a.queue_id
    LEFT JOIN queen.partition_consumers c
        ON c.partition_id = a.partition_id AND c.consumer_group = k.consumer_group;
END
$$;
