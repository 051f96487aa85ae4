-- Up to which number every consumer group of its queue has passed a partition, by the same rules as
-- group_positions; p_queue_id NULL: in all queues.
--
-- Result: a row per partition; seq is below first_seq in a queue without groups, and where a group without a start
-- has not been. leased: messages in the largest live lease; failed: messages that wait for their redelivery.
-- Not made of group_positions, because it need not know which group is missing: a count of cursors tells that one
-- is. Takes no locks.
-- Plain SQL without settings of its own, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.passed_by_all(p_queue_id uuid)
RETURNS TABLE (queue_id uuid, partition_id uuid, first_seq bigint, last_seq bigint, seq bigint, leased bigint, failed bigint)
LANGUAGE sql STABLE
AS $$
    WITH groups AS MATERIALIZED (
        SELECT q.id AS queue_id, g.consumer_group, s.start_time IS NULL AS is_plain, s.own_ids
        FROM queen.queues q
        CROSS JOIN LATERAL queen.queue_groups(q.id, q.name) g
        CROSS JOIN LATERAL queen.queue_start(q.id, q.name, g.consumer_group) s
        WHERE p_queue_id IS NULL OR q.id = p_queue_id
    )
    SELECT l.queue_id, l.partition_id, l.first_seq, l.last_seq,
           CASE WHEN k.plain IS NULL
                     OR k.plain > coalesce(c.plain, 0) + (
                         SELECT count(*) FROM groups g
                         WHERE k.has_own AND g.queue_id = l.queue_id AND g.is_plain
                           AND l.partition_id = ANY (g.own_ids)
                           AND NOT EXISTS (SELECT FROM queen.partition_consumers x
                                           WHERE x.partition_id = l.partition_id
                                             AND x.consumer_group = g.consumer_group))
                THEN l.first_seq - 1
                ELSE greatest(l.first_seq - 1, least(c.seq, u.seq, l.last_seq)) END,
           coalesce(c.leased, 0), coalesce(c.failed, 0)
    FROM queen.partition_lookup l
    LEFT JOIN (
        SELECT g.queue_id, count(*) FILTER (WHERE g.is_plain) AS plain,
               bool_or(g.is_plain AND g.own_ids IS NOT NULL) AS has_own
        FROM groups g GROUP BY g.queue_id
    ) k ON k.queue_id = l.queue_id
    LEFT JOIN (
        SELECT x.partition_id, min(x.cursor_seq) AS seq, count(*) FILTER (WHERE g.is_plain) AS plain,
               max(x.lease_end_seq - x.cursor_seq) FILTER (WHERE x.lease_expires_at > now()) AS leased,
               count(*) FILTER (WHERE x.retry_count > 0) AS failed
        FROM queen.partition_consumers x
        JOIN groups g ON g.queue_id = x.queue_id AND g.consumer_group = x.consumer_group
        GROUP BY x.partition_id
    ) c ON c.partition_id = l.partition_id
    LEFT JOIN (
        SELECT x.partition_id, min(x.after_seq) AS seq FROM queen.unvisited_positions(p_queue_id, NULL) x
        GROUP BY x.partition_id
    ) u ON u.partition_id = l.partition_id
    WHERE p_queue_id IS NULL OR l.queue_id = p_queue_id
$$;
