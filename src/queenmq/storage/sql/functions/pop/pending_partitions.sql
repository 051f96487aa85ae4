-- The partitions of a scope that hold something a consumer group has not passed, and when it may have it.
-- The one statement of what "deliverable" means outside of the lease itself (pop_sm_lease).
--
-- Arguments: scope as in queues_in_scope; p_partition_ids bounds the search, NULL looks at all.
-- Result: due_at is the time from which the partition can be popped: '-infinity' at once, 'infinity' not
-- until an operator acts. why says what it waits for until then: l lease, w retry, window or delay, b blocked
-- by a poison message. A group without a cursor starts where its subscription says.
-- Plain SQL without settings of its own, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.pending_partitions(
    p_queue_name text,
    p_namespace text,
    p_task text,
    p_consumer_group text,
    p_partition_ids uuid[]
)
RETURNS TABLE (
    partition_id uuid,
    priority integer,
    last_served_at timestamptz,
    due_at timestamptz,
    why text
)
LANGUAGE sql STABLE
AS $$
    SELECT l.partition_id, q.priority, l.last_served_at,
           greatest(
               '-infinity'::timestamptz,
               l.lease_expires_at,
               l.retry_at,
               CASE WHEN l.blocked_seq IS NOT NULL AND q.on_poison = 'block'
                    THEN 'infinity'::timestamptz END,
               CASE WHEN q.window_buffer > 0
                    THEN l.last_message_created_at + make_interval(secs => q.window_buffer) END,
               CASE WHEN q.delayed_processing > 0 THEN (
                   SELECT m.created_at + make_interval(secs => q.delayed_processing)
                   FROM queen.messages m
                   WHERE m.partition_id = l.partition_id AND m.seq > greatest(l.cursor_seq, l.first_seq - 1)
                   ORDER BY m.seq LIMIT 1) END),
           CASE WHEN l.blocked_seq IS NOT NULL AND q.on_poison = 'block' THEN 'b'
                WHEN l.lease_expires_at > clock_timestamp() THEN 'l'
                ELSE 'w' END
    FROM queen.queues_in_scope(p_queue_name, p_namespace, p_task) q
    CROSS JOIN LATERAL queen.queue_start(q.id, q.name, p_consumer_group) s
    CROSS JOIN LATERAL (
        -- Two branches, because all cursors of a group are best read together and a few one by one.
        SELECT a.partition_id, a.first_seq, a.last_seq, a.last_message_created_at, a.last_xid, c.cursor_seq,
               c.lease_expires_at, c.retry_at, c.blocked_seq, c.last_served_at
        FROM queen.partition_lookup a
        LEFT JOIN queen.partition_consumers c ON c.partition_id = a.partition_id
            AND c.queue_id = q.id AND c.consumer_group = p_consumer_group
        WHERE p_partition_ids IS NULL AND a.queue_id = q.id
        UNION ALL
        SELECT a.partition_id, a.first_seq, a.last_seq, a.last_message_created_at, a.last_xid, c.cursor_seq,
               c.lease_expires_at, c.retry_at, c.blocked_seq, c.last_served_at
        FROM unnest(p_partition_ids) AS u (id)
        JOIN queen.partition_lookup a ON a.partition_id = u.id
        LEFT JOIN queen.partition_consumers c
            ON c.partition_id = a.partition_id AND c.consumer_group = p_consumer_group
        WHERE a.queue_id = q.id
    ) l
    WHERE l.last_seq > greatest(coalesce(l.cursor_seq, 0), l.first_seq - 1)
      -- Where the group has no cursor, its start decides.
      AND (l.cursor_seq IS NOT NULL OR CASE
               WHEN l.partition_id = ANY (s.own_ids)
                   THEN queen.start_seq(l.partition_id, p_consumer_group) < l.last_seq
               ELSE NOT queen.is_before_start(
                   l.last_message_created_at, l.last_xid, s.start_time, s.start_snapshot) END)
$$;
