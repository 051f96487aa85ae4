-- Search a slice of a queue of many partitions, in id order, for many (queue, consumer group) pairs at once. Slice by
-- slice a broker walks through the whole queue without a long statement.
--
-- Arguments: parallel arrays, one element per pair; the slice begins after the partition p_afters. It ends when
-- p_limit deliverable partitions or more were found, or after p_budget_ms. No further pair is begun after that.
-- Result: a row per pair that was searched. partition_ids are deliverable now, least recently served first; held_ids
-- (at most 5,000), held_whys and next_due_ms as for pop_sm_resolve, of all partitions up to last_id. is_end: the queue
-- has no partition after that. is_whole: all that must wait are listed.
-- A hint only: the lease re-checks everything. Takes no locks.
CREATE OR REPLACE FUNCTION queen.walk_partitions(
    p_queue_names text[],
    p_consumer_groups text[],
    p_afters uuid[],
    p_limit integer,
    p_budget_ms integer
)
RETURNS TABLE (
    pair integer,
    is_end boolean,
    is_whole boolean,
    partition_ids uuid[],
    held_ids uuid[],
    held_whys text,
    next_due_ms double precision,
    last_id uuid
)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    c_held_max CONSTANT integer := 5000;
    v_now CONSTANT timestamptz := clock_timestamp();
    v_end CONSTANT timestamptz := v_now + make_interval(secs => p_budget_ms / 1000.0);
    v_asked record;
    v_queue_id uuid;
    v_step uuid[];
    v_step_size integer;
    v_found record;
    v_due_at timestamptz;
BEGIN
    FOR v_asked IN
        SELECT u.* FROM unnest(p_queue_names, p_consumer_groups) WITH ORDINALITY AS u (queue_name, consumer_group, n)
        ORDER BY u.n
    LOOP
        EXIT WHEN v_asked.n > 1 AND clock_timestamp() > v_end;
        pair := v_asked.n;
        partition_ids := '{}';
        held_ids := '{}';
        held_whys := '';
        v_due_at := NULL;
        last_id := p_afters[pair];
        -- Small at first: with cold caches every partition is a read from disk.
        v_step_size := 500;
        v_queue_id := (SELECT q.id FROM queen.queues q WHERE q.name = v_asked.queue_name);
        LOOP
            -- By pairs, so that only the index of both is in order, and other queues are not read.
            v_step := ARRAY(
                SELECT s.partition_id
                FROM (SELECT l.queue_id, l.partition_id FROM queen.partition_lookup l
                      WHERE (l.queue_id, l.partition_id) > (v_queue_id, last_id)
                      ORDER BY l.queue_id, l.partition_id LIMIT v_step_size) s
                WHERE s.queue_id = v_queue_id);
            is_end := cardinality(v_step) < v_step_size;
            EXIT WHEN v_step = '{}';
            last_id := v_step[cardinality(v_step)];
            SELECT array_agg(p.partition_id ORDER BY p.last_served_at NULLS FIRST)
                       FILTER (WHERE p.due_at <= v_now) AS ready_ids,
                   array_agg(p.partition_id ORDER BY p.partition_id) FILTER (WHERE p.due_at > v_now) AS held_ids,
                   string_agg(p.why, '' ORDER BY p.partition_id) FILTER (WHERE p.due_at > v_now) AS held_whys,
                   min(p.due_at) FILTER (WHERE p.due_at > v_now AND p.due_at < 'infinity') AS next_due_at
            INTO v_found
            FROM queen.pending_partitions(v_asked.queue_name, NULL, NULL, v_asked.consumer_group, v_step) p;
            partition_ids := partition_ids || coalesce(v_found.ready_ids, '{}');
            held_ids := held_ids || coalesce(v_found.held_ids, '{}');
            held_whys := held_whys || coalesce(v_found.held_whys, '');
            v_due_at := least(v_due_at, v_found.next_due_at);
            EXIT WHEN is_end OR cardinality(partition_ids) >= p_limit OR clock_timestamp() >= v_end;
            v_step_size := least(2 * v_step_size, 2000);
        END LOOP;
        is_whole := cardinality(held_ids) <= c_held_max;
        held_ids := held_ids[1 : c_held_max];
        held_whys := left(held_whys, c_held_max);
        next_due_ms := extract(epoch FROM v_due_at - v_now)::double precision * 1000;
        RETURN NEXT;
    END LOOP;
END
$$;
