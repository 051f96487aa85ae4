-- Find partitions that have something to deliver, for many (scope, consumer group) pairs at once.
--
-- Arguments: parallel arrays, one element per pair: scope, group and horizon as in partitions_to_check and
-- pending_partitions. p_known_ids holds the known partitions of all pairs one after the other,
-- p_known_counts how many belong to each pair. p_limit bounds the deliverable partitions returned per pair,
-- and five times that the others.
-- After p_budget_ms no further pair is begun; the first one always is, so every call makes progress.
-- Result: a row per pair that was looked at. partition_ids are deliverable now, highest queue priority first and
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
    p_budget_ms integer
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
    v_now CONSTANT timestamptz := clock_timestamp();
    v_end CONSTANT timestamptz := v_now + make_interval(secs => p_budget_ms / 1000.0);
    v_asked record;
    v_ids uuid[];
    v_known integer := 0;
BEGIN
    horizon := pg_snapshot_xmin(pg_current_snapshot())::text;
    FOR v_asked IN
        SELECT u.* FROM unnest(p_queue_names, p_partition_names, p_namespaces, p_tasks, p_consumer_groups,
                               p_horizons, p_known_counts) WITH ORDINALITY
            AS u (queue_name, partition_name, namespace, task, consumer_group, since, known, n)
    LOOP
        EXIT WHEN v_asked.n > 1 AND clock_timestamp() > v_end;
        v_ids := queen.partitions_to_check(
            v_asked.queue_name, v_asked.partition_name, v_asked.namespace, v_asked.task, v_asked.since,
            p_known_ids[v_known + 1 : v_known + v_asked.known]);
        v_known := v_known + v_asked.known;
        pair := v_asked.n;
        is_found := v_asked.partition_name IS NULL OR cardinality(v_ids) > 0;
        partition_ids := '{}';
        held_ids := '{}';
        held_whys := '';
        next_due_ms := NULL;
        is_complete := true;
        IF v_ids IS NULL OR cardinality(v_ids) > 0 THEN
            SELECT coalesce((array_agg(p.partition_id ORDER BY p.priority DESC, p.last_served_at NULLS FIRST)
                             FILTER (WHERE p.due_at <= v_now))[1 : p_limit], '{}'),
                   coalesce((array_agg(p.partition_id ORDER BY p.due_at, p.partition_id)
                             FILTER (WHERE p.due_at > v_now))[1 : 5 * p_limit], '{}'),
                   coalesce(left(string_agg(p.why, '' ORDER BY p.due_at, p.partition_id)
                                 FILTER (WHERE p.due_at > v_now), 5 * p_limit), ''),
                   extract(epoch FROM min(p.due_at) FILTER (WHERE p.due_at > v_now AND p.due_at < 'infinity')
                                      - v_now)::double precision * 1000,
                   count(*) FILTER (WHERE p.due_at <= v_now) <= p_limit
                   AND count(*) FILTER (WHERE p.due_at > v_now) <= 5 * p_limit
            INTO partition_ids, held_ids, held_whys, next_due_ms, is_complete
            FROM queen.pending_partitions(
                v_asked.queue_name, v_asked.namespace, v_asked.task, v_asked.consumer_group, v_ids) p;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
