-- Find partitions that have something to deliver, for many (scope, consumer group) pairs at once.
--
-- Arguments: parallel arrays. A scope is a queue name, or, where that is NULL, a namespace and a task,
-- each NULL for "any". p_limit bounds the partitions returned per pair.
-- Result: per pair the deliverable partitions, highest queue priority first and then least recently
-- served first, and the milliseconds until the next one that has messages but is leased, delayed,
-- windowed or waiting for a retry (NULL: none). Every pair gets a row.
-- A hint only: the lease re-checks everything. Takes no locks.
CREATE OR REPLACE FUNCTION queen.pop_sm_resolve(
    p_queue_names text[],
    p_namespaces text[],
    p_tasks text[],
    p_consumer_groups text[],
    p_limit integer
)
RETURNS TABLE (pair integer, partition_ids uuid[], next_due_ms double precision)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now CONSTANT timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    SELECT a.n::integer, f.partition_ids,
           extract(epoch FROM f.next_due - v_now)::double precision * 1000
    FROM unnest(p_queue_names, p_namespaces, p_tasks, p_consumer_groups) WITH ORDINALITY
         AS a (queue_name, namespace, task, consumer_group, n)
    CROSS JOIN LATERAL (
        WITH pending AS MATERIALIZED (
            SELECT l.partition_id, q.priority, pc.last_served_at,
                   greatest(
                       '-infinity'::timestamptz,
                       pc.lease_expires_at,
                       pc.retry_at,
                       CASE WHEN pc.blocked_seq IS NOT NULL AND q.on_poison = 'block'
                            THEN 'infinity'::timestamptz END,
                       CASE WHEN q.window_buffer > 0
                            THEN l.last_message_created_at + make_interval(secs => q.window_buffer) END,
                       CASE WHEN q.delayed_processing > 0 THEN (
                           SELECT m.created_at + make_interval(secs => q.delayed_processing)
                           FROM queen.messages m
                           WHERE m.partition_id = l.partition_id AND m.seq > coalesce(pc.cursor_seq, 0)
                           ORDER BY m.seq LIMIT 1) END
                   ) AS due_at
            FROM (
                SELECT * FROM queen.queues n WHERE n.name = a.queue_name
                UNION ALL
                SELECT * FROM queen.queues n
                WHERE a.queue_name IS NULL
                  AND (a.namespace IS NULL OR n.namespace = a.namespace)
                  AND (a.task IS NULL OR n.task = a.task)
            ) q
            JOIN queen.partition_lookup l ON l.queue_id = q.id
            LEFT JOIN queen.partition_consumers pc
                ON pc.partition_id = l.partition_id AND pc.consumer_group = a.consumer_group
            LEFT JOIN queen.consumer_groups_metadata g
                ON pc.partition_id IS NULL AND g.queue_name = q.name AND g.partition_name = ''
                AND g.consumer_group = a.consumer_group AND g.subscription_mode = 'timestamp'
            WHERE l.last_seq > greatest(coalesce(pc.cursor_seq, 0), l.first_seq - 1)
              AND (g.subscription_timestamp IS NULL
                   OR l.last_message_created_at >= g.subscription_timestamp)
        )
        SELECT array_agg(r.partition_id ORDER BY r.place) AS partition_ids,
               (SELECT min(w.due_at) FROM pending w WHERE w.due_at > v_now AND w.due_at < 'infinity')
                   AS next_due
        FROM (
            SELECT p.partition_id,
                   row_number() OVER (ORDER BY p.priority DESC, p.last_served_at NULLS FIRST) AS place
            FROM pending p
            WHERE p.due_at <= v_now
            ORDER BY p.priority DESC, p.last_served_at NULLS FIRST
            LIMIT p_limit
        ) r
    ) f;
END
$$;
