-- Where consumer groups stand in the partitions of a queue that they have subscribed to but not visited: by their
-- start. p_queue_id NULL: of all queues, p_consumer_group NULL: all groups.
--
-- Result: a row per partition in which a group has no cursor but a start, and messages after it. after_seq is the
-- number before the first of them. Most partitions of a wide queue are before every start: they are left out by one
-- look at each, whatever the number of groups. Short partitions are read from their end, long ones searched.
-- Takes no locks.
-- Plain SQL without settings of its own, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.unvisited_positions(p_queue_id uuid, p_consumer_group text)
RETURNS TABLE (queue_id uuid, partition_id uuid, consumer_group text, first_seq bigint, last_seq bigint, after_seq bigint)
LANGUAGE sql STABLE
AS $$
    WITH starts AS MATERIALIZED (
        SELECT q.id AS queue_id, g.consumer_group, s.start_time, s.start_snapshot, s.own_ids,
               pg_snapshot_xmin(s.start_snapshot)::text::bigint AS xmin
        FROM (SELECT DISTINCT m.queue_name, m.consumer_group::text FROM queen.consumer_groups_metadata m
              WHERE p_consumer_group IS NULL OR m.consumer_group = p_consumer_group) g
        JOIN queen.queues q ON q.name = g.queue_name
        CROSS JOIN LATERAL queen.queue_start(q.id, q.name, g.consumer_group) s
        WHERE p_queue_id IS NULL OR q.id = p_queue_id
    ), active AS MATERIALIZED (
        -- What is not seen by a snapshot is not below its xmin.
        SELECT l.*
        FROM (SELECT s.queue_id, min(s.start_time) AS time, min(s.xmin) AS xmin FROM starts s
              WHERE s.start_time IS NOT NULL GROUP BY s.queue_id) f
        JOIN queen.partition_lookup l ON l.queue_id = f.queue_id AND l.last_seq >= l.first_seq
            AND (l.last_message_created_at >= f.time OR l.last_xid::text::bigint >= f.xmin)
    ), places AS (
        SELECT l.queue_id, l.partition_id, s.consumer_group, l.first_seq, l.last_seq, s.start_time, s.start_snapshot,
               false AS is_own
        FROM starts s
        JOIN active l ON l.queue_id = s.queue_id AND s.start_time IS NOT NULL AND NOT queen.is_before_start(
            l.last_message_created_at, l.last_xid, s.start_time, s.start_snapshot)
            AND coalesce(l.partition_id <> ALL (s.own_ids), true)
        UNION ALL
        SELECT l.queue_id, l.partition_id, s.consumer_group, l.first_seq, l.last_seq, NULL, NULL, true
        FROM starts s
        CROSS JOIN LATERAL unnest(s.own_ids) AS o (id)
        JOIN queen.partition_lookup l ON l.partition_id = o.id AND l.last_seq >= l.first_seq
    ), unvisited AS MATERIALIZED (
        SELECT p.* FROM places p
        WHERE NOT EXISTS (SELECT FROM queen.partition_consumers c
                          WHERE c.partition_id = p.partition_id AND c.consumer_group = p.consumer_group)
    )
    SELECT u.queue_id, u.partition_id, u.consumer_group, u.first_seq, u.last_seq, a.seq
    FROM unvisited u
    CROSS JOIN LATERAL (
        SELECT greatest(u.first_seq - 1, CASE
                   WHEN u.is_own THEN queen.start_seq(u.partition_id, u.consumer_group)
                   WHEN u.last_seq - u.first_seq < 64 THEN (
                       SELECT m.seq FROM queen.messages m
                       WHERE m.partition_id = u.partition_id AND m.seq >= u.first_seq AND m.seq <= u.last_seq
                         AND queen.is_before_start(m.created_at, m.xid, u.start_time, u.start_snapshot)
                       ORDER BY m.seq DESC LIMIT 1)
                   ELSE queen.seq_before_start(u.partition_id, u.start_time, u.start_snapshot) END) AS seq
        -- Lest it is worked out once more for the condition.
        OFFSET 0
    ) a
    WHERE u.last_seq > a.seq
$$;
