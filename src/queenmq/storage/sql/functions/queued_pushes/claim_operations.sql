-- Claim operations to run: of each partition the first that waits and, as far as there is room, those right behind it.
--
-- Arguments: p_worker, for people; p_token, new for each claim, which the run and the release have to show;
-- p_partitions_max, p_items_max bound what is taken; a single operation may exceed the latter.
-- Result: the operations, in the order of each partition. was_stuck: the broker that had claimed it before did not
-- come back within its timeout.
-- Urgent ones first; every ten seconds of waiting count as much as one step of priority, so nothing starves.
-- Tables: operation_queue (update).
-- Locks: the first operation of each partition, and those behind it, skipping what others hold.
CREATE OR REPLACE FUNCTION queen.claim_operations(
    p_worker text,
    p_token uuid,
    p_partitions_max integer,
    p_items_max integer
)
RETURNS TABLE (
    id uuid,
    partition_id uuid,
    seq bigint,
    queue_name text,
    partition_name text,
    retry_count integer,
    max_retries integer,
    was_stuck boolean
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now CONSTANT timestamptz := clock_timestamp();
    v_heads uuid[];
    v_locked uuid[];
    v_share integer;
BEGIN
    SELECT array_agg(l.id) INTO v_heads FROM (
        SELECT o.id FROM queen.operation_queue o
        JOIN (SELECT DISTINCT ON (b.partition_id) b.id FROM queen.operation_queue b
              WHERE b.is_blocking ORDER BY b.partition_id, b.seq) h ON h.id = o.id
        WHERE o.next_run_at <= v_now
          AND (o.status = 'pending'
               OR (o.status = 'processing'
                   AND o.processing_started_at < v_now - make_interval(secs => o.timeout_seconds)))
        ORDER BY o.priority - floor(extract(epoch FROM v_now - o.created_at) / 10), o.created_at, o.id
        LIMIT p_partitions_max
        FOR UPDATE OF o SKIP LOCKED
    ) l;

    -- Those behind them as well, without waiting: a session that locks operations in another order may wait for
    -- one of ours. Lines are of different lengths, so each may have more than its share of the room.
    v_share := least(p_items_max, greatest(1, 4 * p_items_max / cardinality(v_heads)));
    SELECT array_agg(f.id) INTO v_locked
    FROM unnest(v_heads) AS u (id)
    JOIN queen.operation_queue h ON h.id = u.id
    CROSS JOIN LATERAL (
        SELECT o.id FROM queen.operation_queue o
        WHERE o.partition_id = h.partition_id AND o.is_blocking
        ORDER BY o.seq LIMIT v_share
        FOR UPDATE SKIP LOCKED
    ) f;

    RETURN QUERY
    WITH lines AS (
        SELECT f.*, u.rank,
               row_number() OVER (PARTITION BY f.partition_id ORDER BY f.seq) AS place,
               bool_and(f.is_free) OVER (PARTITION BY f.partition_id ORDER BY f.seq) AS is_next
        FROM unnest(v_heads) WITH ORDINALITY AS u (id, rank)
        JOIN queen.operation_queue h ON h.id = u.id
        CROSS JOIN LATERAL (
            SELECT o.id, o.partition_id, o.seq, o.item_count, o.status = 'processing' AS was_stuck,
                   o.id = ANY (v_locked) AND o.next_run_at <= v_now
                   AND (o.status = 'pending'
                        OR (o.status = 'processing' AND o.processing_started_at
                                                        < v_now - make_interval(secs => o.timeout_seconds)))
                       AS is_free
            FROM queen.operation_queue o
            WHERE o.partition_id = h.partition_id AND o.is_blocking
            ORDER BY o.seq LIMIT v_share
        ) f
    ), counted AS (
        -- All firsts before all seconds: a long line does not take the room of the others.
        SELECT l.*, sum(l.item_count) OVER (ORDER BY l.place, l.rank) - l.item_count AS items_before
        FROM lines l WHERE l.is_next
    )
    UPDATE queen.operation_queue o
    SET status = 'processing', processing_started_at = v_now, claimed_by_worker = p_worker,
        claim_token = p_token
    FROM counted c
    WHERE o.id = c.id AND c.items_before < p_items_max
    RETURNING o.id, o.partition_id, o.seq, o.queue_name::text, o.partition_name::text,
              o.retry_count, o.max_retries, c.was_stuck;
END
$$;
