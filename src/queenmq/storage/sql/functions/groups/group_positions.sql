-- Where the consumer groups of a queue stand in its partitions; p_queue_id NULL: of all queues, p_consumer_group
-- NULL: all groups. The one definition of what a group has before it.
--
-- Result: a row per cursor, and a row per partition in which a group of the queue (queue_groups) has no cursor yet
-- but messages to come: after its start, or all of them. In any other partition it has passed everything.
-- after_seq is the last number that it has passed or that is gone. The columns of the cursor are NULL where there
-- is none. Takes no locks.
-- Plain SQL without settings of its own, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.group_positions(p_queue_id uuid, p_consumer_group text)
RETURNS TABLE (
    queue_id uuid,
    partition_id uuid,
    consumer_group text,
    last_seq bigint,
    after_seq bigint,
    lease_expires_at timestamptz,
    last_consumed_at timestamptz,
    total_consumed bigint
)
LANGUAGE sql STABLE
AS $$
    SELECT l.queue_id, l.partition_id, c.consumer_group::text, l.last_seq, greatest(c.cursor_seq, l.first_seq - 1),
           c.lease_expires_at, c.last_consumed_at, c.total_consumed
    FROM queen.partition_consumers c
    JOIN queen.partition_lookup l ON l.partition_id = c.partition_id
    WHERE (p_queue_id IS NULL OR c.queue_id = p_queue_id)
      AND (p_consumer_group IS NULL OR c.consumer_group = p_consumer_group)
    UNION ALL
    SELECT u.queue_id, u.partition_id, u.consumer_group, u.last_seq, u.after_seq, NULL, NULL, NULL
    FROM queen.unvisited_positions(p_queue_id, p_consumer_group) u
    UNION ALL
    SELECT l.queue_id, l.partition_id, g.consumer_group, l.last_seq, l.first_seq - 1, NULL, NULL, NULL
    FROM queen.queues q
    CROSS JOIN LATERAL queen.queue_groups(q.id, q.name) g
    CROSS JOIN LATERAL queen.queue_start(q.id, q.name, g.consumer_group) s
    JOIN queen.partition_lookup l ON l.queue_id = q.id AND l.last_seq >= l.first_seq
        AND coalesce(l.partition_id <> ALL (s.own_ids), true)
    WHERE s.start_time IS NULL
      AND (p_queue_id IS NULL OR q.id = p_queue_id)
      AND (p_consumer_group IS NULL OR g.consumer_group = p_consumer_group)
      AND NOT EXISTS (SELECT FROM queen.partition_consumers c
                      WHERE c.partition_id = l.partition_id AND c.consumer_group = g.consumer_group)
$$;
