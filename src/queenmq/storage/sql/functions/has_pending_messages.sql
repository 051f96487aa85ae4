-- Whether a pop would find anything, for many (scope, consumer group) pairs at once: the cheap question
-- before a search, by the same rules.
--
-- Arguments: as for pop_sm_resolve. Result: one answer per pair, in order. Takes no locks.
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
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now CONSTANT timestamptz := clock_timestamp();
    v_asked record;
    v_ids uuid[];
    v_known integer := 0;
    v_answers boolean[] := '{}';
BEGIN
    FOR v_asked IN
        SELECT u.* FROM unnest(p_queue_names, p_partition_names, p_namespaces, p_tasks, p_consumer_groups,
                               p_horizons, p_known_counts)
            AS u (queue_name, partition_name, namespace, task, consumer_group, since, known)
    LOOP
        v_ids := queen.partitions_to_check(
            v_asked.queue_name, v_asked.partition_name, v_asked.namespace, v_asked.task, v_asked.since,
            p_known_ids[v_known + 1 : v_known + v_asked.known]);
        v_known := v_known + v_asked.known;
        v_answers := v_answers || (
            coalesce(cardinality(v_ids) > 0, true) AND EXISTS (
                SELECT FROM queen.pending_partitions(
                    v_asked.queue_name, v_asked.namespace, v_asked.task, v_asked.consumer_group, v_ids) s
                WHERE s.due_at <= v_now));
    END LOOP;
    RETURN v_answers;
END
$$;
