-- Continue the search of queues that have more to deliver than one look-up returns: the next partitions in id order,
-- for many (queue, consumer group) pairs at once.
--
-- Arguments: parallel arrays, one element per pair; p_afters has the partition after which to look. A page ends
-- when at least p_limit deliverable partitions were found. After p_budget_ms no further pair is begun.
-- Result: a row per pair that was searched. is_filled: the page is full. Otherwise the queue ended first, and nothing
-- else follows: only a full search knows what there is. partition_ids are
-- deliverable now, least recently served first; held_ids, held_whys and next_due_ms as for pop_sm_resolve, of the
-- partitions up to last_id, after which the next page begins.
-- The cost is that of the partitions passed on the way, however many the queue has.
-- A hint only: the lease re-checks everything. Takes no locks.
CREATE OR REPLACE FUNCTION queen.search_onwards(
    p_queue_names text[],
    p_consumer_groups text[],
    p_afters uuid[],
    p_limit integer,
    p_budget_ms integer
)
RETURNS TABLE (
    pair integer,
    is_filled boolean,
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
        v_step_size := p_limit;
        v_queue_id := (SELECT q.id FROM queen.queues q WHERE q.name = v_asked.queue_name);
        LOOP
            v_step := ARRAY(
                SELECT l.partition_id FROM queen.partition_lookup l
                WHERE l.queue_id = v_queue_id AND l.partition_id > last_id
                ORDER BY l.partition_id LIMIT v_step_size);
            EXIT WHEN cardinality(v_step) = 0;
            last_id := v_step[cardinality(v_step)];
            SELECT array_agg(p.partition_id ORDER BY p.last_served_at NULLS FIRST)
                       FILTER (WHERE p.due_at <= v_now) AS ready_ids,
                   array_agg(p.partition_id ORDER BY p.partition_id) FILTER (WHERE p.due_at > v_now) AS held_ids,
                   string_agg(p.why, '' ORDER BY p.partition_id) FILTER (WHERE p.due_at > v_now) AS held_whys,
                   min(p.due_at) FILTER (WHERE p.due_at > v_now AND p.due_at < 'infinity') AS next_due_at
            INTO v_found
            FROM queen.pending_partitions(v_asked.queue_name, NULL, NULL, v_asked.consumer_group, v_step) p;
            partition_ids := partition_ids || coalesce(v_found.ready_ids, '{}');
            held_ids := (held_ids || coalesce(v_found.held_ids, '{}'))[1 : 5 * p_limit];
            held_whys := left(held_whys || coalesce(v_found.held_whys, ''), 5 * p_limit);
            v_due_at := least(v_due_at, v_found.next_due_at);
            EXIT WHEN cardinality(partition_ids) >= p_limit OR cardinality(v_step) < v_step_size;
            -- Few of them have work: larger steps cost less, and bring few more than were asked for.
            v_step_size := least(2 * v_step_size, 4 * p_limit);
        END LOOP;
        is_filled := cardinality(partition_ids) >= p_limit;
        next_due_ms := extract(epoch FROM v_due_at - v_now)::double precision * 1000;
        RETURN NEXT;
    END LOOP;
END
$$;
