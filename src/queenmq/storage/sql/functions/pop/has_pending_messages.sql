-- Whether a pop would find anything, for many (scope, consumer group) pairs at once: the cheap question
-- before a search, by the same rules.
--
-- Arguments: as for partitions_to_check. Result: one answer per pair, in order. Takes no locks.
CREATE OR REPLACE FUNCTION queen.has_pending_messages(
    p_queue_names text[],
    p_partition_names text[],
    p_namespaces text[],
    p_tasks text[],
    p_consumer_groups text[],
    p_horizons xid8[],
    p_known_ids uuid[],
    p_known_counts integer[]
)
RETURNS boolean[]
LANGUAGE sql STABLE
SET plan_cache_mode = force_generic_plan
AS $$
    SELECT coalesce(array_agg(
        EXISTS (SELECT FROM queen.pending_partitions(
                    a.queue_name, a.namespace, a.task, a.consumer_group, a.partition_ids) p
                WHERE p.due_at <= clock_timestamp())
        ORDER BY a.pair), '{}')
    FROM queen.partitions_to_check(
        p_queue_names, p_partition_names, p_namespaces, p_tasks, p_consumer_groups,
        p_horizons, p_known_ids, p_known_counts) a
$$;
