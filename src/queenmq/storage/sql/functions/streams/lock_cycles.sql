-- Lock what cycles of streams need before anything is judged: their (query, partition) pairs, made where they are
-- new, and with a new pair the partitions themselves.
--
-- Arguments: parallel arrays of distinct pairs; p_sink_ids: the partitions that are going to be pushed to.
-- Tables: queen_streams.partitions (insert, row locks), partition_lookup (row locks).
-- Locks: an advisory lock per query, shared by its cycles; rows of pairs in (query, partition) order; then, with a
-- new pair, lookup rows in partition id order: a session that deletes a partition does not see the new row, and must
-- not be half-way.
CREATE OR REPLACE FUNCTION queen.lock_cycles(p_query_ids uuid[], p_partition_ids uuid[], p_sink_ids uuid[])
RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_id uuid;
    v_new uuid[];
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended(u.id::text, 2))
    FROM (SELECT DISTINCT s.id FROM unnest(p_query_ids) AS s (id) ORDER BY s.id) u;

    WITH made AS (
        INSERT INTO queen_streams.partitions (query_id, partition_id)
        SELECT u.q, u.p FROM unnest(p_query_ids, p_partition_ids) AS u (q, p)
        JOIN queen_streams.queries x ON x.id = u.q
        WHERE NOT EXISTS (SELECT FROM queen_streams.partitions t WHERE t.query_id = u.q AND t.partition_id = u.p)
        ORDER BY u.q, u.p
        ON CONFLICT DO NOTHING
        RETURNING partition_id
    )
    SELECT array_agg(m.partition_id) INTO v_new FROM made m;

    PERFORM FROM queen_streams.partitions t
    WHERE (t.query_id, t.partition_id) IN (SELECT u.q, u.p FROM unnest(p_query_ids, p_partition_ids) AS u (q, p))
    ORDER BY t.query_id, t.partition_id
    FOR UPDATE OF t;

    IF v_new IS NOT NULL THEN
        -- One pass in one order, each row as strongly as it will be needed.
        FOR v_id IN SELECT DISTINCT u.id FROM unnest(v_new || p_sink_ids) AS u (id) ORDER BY u.id
        LOOP
            IF v_id = ANY (p_sink_ids) THEN
                PERFORM FROM queen.partition_lookup WHERE partition_id = v_id FOR NO KEY UPDATE;
            ELSE
                PERFORM FROM queen.partition_lookup WHERE partition_id = v_id FOR KEY SHARE;
            END IF;
        END LOOP;
    END IF;
END
$$;
