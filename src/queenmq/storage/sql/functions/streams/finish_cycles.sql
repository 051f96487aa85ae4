-- The second half of commit_cycles: apply state and acks of the cycles that may go on, remember them, and return the
-- outcome of each cycle.
--
-- Arguments: those of commit_cycles; what was judged (p_errors to p_live), the first and last place of each cycle's
-- items among the pushed ones (p_starts, p_ends), and their outcomes.
-- Result: that of commit_cycles. Errors: QN010 an ack was refused after all.
-- Tables and locks: see commit_cycles, which holds them all.
CREATE OR REPLACE FUNCTION queen.finish_cycles(
    p_query_ids uuid[],
    p_partition_ids uuid[],
    p_consumer_groups text[],
    p_digests uuid[],
    p_keeps_lease boolean[],
    p_ack_transaction_ids text[],
    p_ack_lease_ids uuid[],
    p_ack_statuses text[],
    p_ack_errors text[],
    p_op_cycles integer[],
    p_op_keys text[],
    p_op_values text[],
    p_op_window_ends double precision[],
    p_errors text[],
    p_repeats boolean[],
    p_queues text[],
    p_names text[],
    p_live boolean[],
    p_starts integer[],
    p_ends integer[],
    p_message_ids text[],
    p_outcomes text,
    p_positions bigint[]
)
RETURNS TABLE (
    error text,
    is_repeat boolean,
    queue_name text,
    message_ids text[],
    outcomes text,
    positions bigint[],
    lease_released boolean,
    dlq boolean,
    partition_name text,
    has_more boolean,
    state_bytes bigint
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_acked integer[];
    v_problem text;
    v_released boolean[];
    v_dlq boolean[];
    v_more boolean[];
    v_keys bigint[];
    v_bytes bigint[];
BEGIN
    v_acked := ARRAY(SELECT u.n FROM unnest(p_live, p_ack_transaction_ids) WITH ORDINALITY AS u (live, tx, n)
                     WHERE u.live AND u.tx IS NOT NULL ORDER BY u.n);
    IF cardinality(v_acked) > 0 THEN
        -- Of the acked ones, by their places in v_acked.
        SELECT array_agg(a.lease_released ORDER BY a.ordinal), array_agg(a.dlq ORDER BY a.ordinal),
               array_agg(a.has_more ORDER BY a.ordinal), min(a.error) FILTER (WHERE NOT a.success)
        INTO v_released, v_dlq, v_more, v_problem
        FROM queen.ack_messages(
            ARRAY(SELECT p_partition_ids[n] FROM unnest(v_acked) AS u (n)),
            ARRAY(SELECT p_consumer_groups[n] FROM unnest(v_acked) AS u (n)),
            ARRAY(SELECT p_ack_transaction_ids[n] FROM unnest(v_acked) AS u (n)),
            ARRAY(SELECT p_ack_lease_ids[n] FROM unnest(v_acked) AS u (n)),
            ARRAY(SELECT p_ack_statuses[n] FROM unnest(v_acked) AS u (n)),
            ARRAY(SELECT p_ack_errors[n] FROM unnest(v_acked) AS u (n)), true, NULL) a;
        IF v_problem IS NOT NULL THEN
            RAISE EXCEPTION '%', v_problem USING ERRCODE = 'QN010';
        END IF;
        -- A lease that ends before its last message: what is left may be popped at once.
        WITH ended AS (
            UPDATE queen.partition_consumers pc SET lease_expires_at = NULL
            FROM unnest(v_acked) WITH ORDINALITY AS u (n, place)
            WHERE pc.partition_id = p_partition_ids[u.n] AND pc.consumer_group = p_consumer_groups[u.n]
              AND (NOT p_keeps_lease[u.n] OR p_ack_statuses[u.n] IN ('failed', 'dlq'))
              AND pc.lease_expires_at IS NOT NULL
              AND (p_ack_lease_ids[u.n] IS NULL OR pc.lease_id = p_ack_lease_ids[u.n])
            RETURNING u.place
        )
        SELECT array_agg(u.r OR e.place IS NOT NULL ORDER BY u.place),
               array_agg(u.m OR e.place IS NOT NULL ORDER BY u.place)
        INTO v_released, v_more
        FROM unnest(v_released, v_more) WITH ORDINALITY AS u (r, m, place)
        LEFT JOIN ended e ON e.place = u.place;
    END IF;

    IF cardinality(p_op_cycles) > 0 THEN
        SELECT array_agg(a.keys ORDER BY c.n), array_agg(a.bytes ORDER BY c.n) INTO v_keys, v_bytes
        FROM generate_subscripts(p_query_ids, 1) AS c (n)
        LEFT JOIN queen.apply_state(
            p_query_ids, p_partition_ids,
            ARRAY(SELECT u.tx IS NULL FROM unnest(p_ack_transaction_ids) WITH ORDINALITY AS u (tx, n) ORDER BY u.n),
            p_op_cycles, p_op_keys, p_op_values, p_op_window_ends) a ON a.cycle = c.n;
    END IF;

    DELETE FROM queen_streams.partitions t
    USING unnest(p_query_ids, p_partition_ids, p_errors) AS u (q, p, error)
    WHERE u.error IS NOT NULL AND t.query_id = u.q AND t.partition_id = u.p AND t.version = 0;
    UPDATE queen_streams.partitions t
    SET version = t.version + 1, consumer_group = c.g, last_cycle_at = clock_timestamp(), digest = c.digest,
        state_keys = t.state_keys + coalesce(v_keys[c.n], 0), state_bytes = t.state_bytes + coalesce(v_bytes[c.n], 0),
        message_ids = p_message_ids[p_starts[c.n]:p_ends[c.n]],
        outcomes = substr(p_outcomes, p_starts[c.n], p_ends[c.n] - p_starts[c.n] + 1),
        positions = p_positions[p_starts[c.n]:p_ends[c.n]],
        lease_released = v_released[array_position(v_acked, c.n::integer)],
        is_dlq = v_dlq[array_position(v_acked, c.n::integer)]
    FROM unnest(p_query_ids, p_partition_ids, p_consumer_groups, p_digests, p_live) WITH ORDINALITY
        AS c (q, p, g, digest, live, n)
    WHERE c.live AND t.query_id = c.q AND t.partition_id = c.p;

    RETURN QUERY
    SELECT c.error, c.is_repeat, c.queue_name, t.message_ids, t.outcomes, t.positions, t.lease_released, t.is_dlq,
           c.partition_name, c.live AND coalesce(v_more[array_position(v_acked, c.n::integer)], false),
           coalesce(v_bytes[c.n], 0)
    FROM unnest(p_query_ids, p_partition_ids, p_errors, p_repeats, p_queues, p_names, p_live) WITH ORDINALITY
        AS c (q, p, error, is_repeat, queue_name, partition_name, live, n)
    LEFT JOIN queen_streams.partitions t ON t.query_id = c.q AND t.partition_id = c.p AND c.error IS NULL
    ORDER BY c.n;
END
$$;
