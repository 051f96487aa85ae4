-- For many (scope, consumer group) pairs: the partitions in which each may have found work since a search that
-- saw everything.
--
-- Arguments: parallel arrays, one element per pair. p_partition_names names the one partition to look at.
-- Otherwise p_horizons has the transaction horizon of the pair's last search (NULL: there was none; a group that
-- has only just subscribed needs none, see first_horizon), and the
-- partitions which that search, or anything since, left behind with messages are the pair's part of
-- p_known_ids: p_known_counts says how many, one pair's after the other's.
-- Result: the pairs in their order with their partition ids; NULL means all of the scope. Everything that was
-- not visible to the last search was written by a transaction at or above its horizon, so new work is found without
-- checking the rest. With more than 5,000 new messages, or other changes of the queue, a full search is cheaper.
CREATE OR REPLACE FUNCTION queen.partitions_to_check(
    p_queue_names text[],
    p_partition_names text[],
    p_namespaces text[],
    p_tasks text[],
    p_consumer_groups text[],
    p_horizons xid8[],
    p_known_ids uuid[],
    p_known_counts integer[]
)
RETURNS TABLE (
    pair integer,
    queue_name text,
    partition_name text,
    namespace text,
    task text,
    consumer_group text,
    partition_ids uuid[]
)
LANGUAGE sql STABLE
AS $$
    SELECT a.n::integer, a.queue_name, a.partition_name, a.namespace, a.task, a.consumer_group,
           CASE WHEN a.partition_name IS NOT NULL THEN ARRAY(
                    SELECT p.id FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id
                    WHERE q.name = a.queue_name AND p.name = a.partition_name)
                WHEN a.since IS NULL OR f.is_changed OR f.count = 5000 THEN NULL
                WHEN f.count = 0 OR a.known = 0 THEN coalesce(f.ids, a.known_ids)
                ELSE ARRAY(SELECT u.id FROM unnest(f.ids) AS u (id)
                           UNION SELECT u.id FROM unnest(a.known_ids) AS u (id)) END
    FROM (
        SELECT u.*, p_known_ids[sum(u.known) OVER w - u.known + 1 : sum(u.known) OVER w] AS known_ids,
               CASE WHEN u.partition_name IS NULL
                    THEN coalesce(u.horizon, queen.first_horizon(u.queue_name, u.consumer_group)) END AS since
        FROM unnest(p_queue_names, p_partition_names, p_namespaces, p_tasks, p_consumer_groups,
                    p_horizons, p_known_counts) WITH ORDINALITY
            AS u (queue_name, partition_name, namespace, task, consumer_group, horizon, known, n)
        WINDOW w AS (ORDER BY u.n)
    ) a
    LEFT JOIN LATERAL (
        SELECT EXISTS (SELECT FROM queen.queues_in_scope(a.queue_name, a.namespace, a.task) q
                       WHERE q.changed_xid >= a.since) AS is_changed,
               array_agg(DISTINCT m.partition_id) AS ids, count(*)
        FROM (SELECT m.partition_id
              FROM queen.queues_in_scope(a.queue_name, a.namespace, a.task) q
              CROSS JOIN LATERAL (SELECT m.partition_id FROM queen.messages m
                                  WHERE m.queue_id = q.id AND m.xid >= a.since LIMIT 5000) m
              LIMIT 5000) m
    ) f ON a.partition_name IS NULL AND a.since IS NOT NULL
    ORDER BY a.n
$$;
