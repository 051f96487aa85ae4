-- Find partitions that have something to deliver, for many (scope, consumer group) pairs at once.
--
-- Arguments: pairs as in partitions_to_check. p_limit bounds the deliverable partitions returned per pair, and
-- five times that the others, at most 5,000. After p_budget_ms no further full search is started. The first one
-- always is, so every call makes progress.
-- p_whole_max: a queue with more partitions than this is not searched whole here. The partitions of its newest messages
-- are (recent_partitions), and where it holds more messages than those, the result is not complete: walk_partitions
-- finds the rest. NULL: every queue is searched whole.
-- Result: a row per pair that was searched. partition_ids are deliverable now, highest queue priority first and
-- then least recently served first; held_ids have messages but must wait, held_whys has a letter for each
-- (see pending_partitions) and next_due_ms is when the first of them is due (NULL: none by itself).
-- is_found: the partition that the scope names exists (true for other scopes). is_complete: all partitions
-- with messages are listed. horizon: what the next search may start from.
-- A hint only: the lease re-checks everything. Takes no locks.
CREATE OR REPLACE FUNCTION queen.pop_sm_resolve(
    p_queue_names text[],
    p_partition_names text[],
    p_namespaces text[],
    p_tasks text[],
    p_consumer_groups text[],
    p_horizons xid8[],
    p_known_ids uuid[],
    p_known_counts integer[],
    p_limit integer,
    p_budget_ms integer,
    p_whole_max integer
)
RETURNS TABLE (
    pair integer,
    is_found boolean,
    is_complete boolean,
    partition_ids uuid[],
    held_ids uuid[],
    held_whys text,
    next_due_ms double precision,
    horizon text
)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    c_held_max CONSTANT integer := least(5 * p_limit, 5000);
    v_now CONSTANT timestamptz := clock_timestamp();
    v_end CONSTANT timestamptz := v_now + make_interval(secs => p_budget_ms / 1000.0);
    v_horizon CONSTANT text := pg_snapshot_xmin(pg_current_snapshot())::text;
BEGIN
    RETURN QUERY
    SELECT a.pair,
           a.partition_name IS NULL OR cardinality(a.partition_ids) > 0,
           coalesce(d.count <= p_limit AND d.held_count <= c_held_max, true) AND a.is_all,
           coalesce(d.ready_ids[1 : p_limit], '{}'),
           coalesce(d.held_ids[1 : c_held_max], '{}'),
           coalesce(left(d.held_whys, c_held_max), ''),
           extract(epoch FROM d.next_due_at - v_now)::double precision * 1000,
           v_horizon
    FROM (
        SELECT c.pair, c.queue_name, c.partition_name, c.namespace, c.task, c.consumer_group,
               coalesce(c.partition_ids, r.partition_ids) AS partition_ids, coalesce(r.is_all, true) AS is_all,
               c.partition_ids IS NOT NULL AS is_bounded,
               count(*) FILTER (WHERE c.partition_ids IS NULL) OVER (ORDER BY c.pair) AS whole_count
        FROM queen.partitions_to_check(
            p_queue_names, p_partition_names, p_namespaces, p_tasks, p_consumer_groups,
            p_horizons, p_known_ids, p_known_counts) c
        LEFT JOIN LATERAL queen.recent_partitions(c.queue_name, p_whole_max) r ON c.partition_ids IS NULL
    ) a
    CROSS JOIN LATERAL (
        SELECT array_agg(p.partition_id ORDER BY p.priority DESC, p.last_served_at NULLS FIRST)
                   FILTER (WHERE p.due_at <= v_now) AS ready_ids,
               array_agg(p.partition_id ORDER BY p.due_at, p.partition_id)
                   FILTER (WHERE p.due_at > v_now) AS held_ids,
               string_agg(p.why, '' ORDER BY p.due_at, p.partition_id)
                   FILTER (WHERE p.due_at > v_now) AS held_whys,
               min(p.due_at) FILTER (WHERE p.due_at > v_now AND p.due_at < 'infinity') AS next_due_at,
               count(*) FILTER (WHERE p.due_at <= v_now),
               count(*) FILTER (WHERE p.due_at > v_now) AS held_count
        FROM queen.pending_partitions(
            a.queue_name, a.namespace, a.task, a.consumer_group, a.partition_ids) p
    ) d
    WHERE a.is_bounded OR a.whole_count = 1 OR clock_timestamp() <= v_end;
END
$$;
