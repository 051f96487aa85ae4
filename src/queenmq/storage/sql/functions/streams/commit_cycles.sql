-- Commit cycles of streams: of each the state, the pushes and the ack together, or nothing and the reason.
--
-- Arguments: parallel arrays with one element per cycle, no two of one (query, partition) or (partition, group).
-- p_digests: of everything a cycle does. p_versions: of the state it has seen, NULL where it does not say.
-- p_keeps_lease: the lease stays until it expires, unless its last message is acked. p_ack_transaction_ids: NULL
-- for a cycle without an ack. The p_op arrays as in apply_state, the arrays from p_sink_ids on as in push_messages;
-- p_op_cycles and p_item_cycles hold places of cycles and ascend. p_encrypted as in push_messages, NULL if none is.
-- Result: one row per cycle, in order; error: why it was refused, and nothing of it was done. is_repeat: it is the
-- last one of its pair, sent again, and has the answer of then. has_more: the source partition may be popped again
-- at once. state_bytes: by how much the state has grown.
-- A cycle that is refused does not harm the others. An error is for all of them, and says which one it is about only
-- where there is one cycle.
-- Errors: QN002 a sink queue is at its maxSize, QN003 too many operations wait in a partition, QN001 a sink
-- partition does not exist any more, QN005 a sink queue is encrypted now, QN010 a lease or cursor has changed in this very moment.
-- Tables: queen_streams.partitions (insert, update, delete), those of apply_state, push_messages and ack_messages.
-- Locks: those of lock_cycles, those of push_messages, then cursor rows in (partition id, group) order.
CREATE OR REPLACE FUNCTION queen.commit_cycles(
    p_query_ids uuid[],
    p_partition_ids uuid[],
    p_consumer_groups text[],
    p_digests uuid[],
    p_versions bigint[],
    p_keeps_lease boolean[],
    p_ack_transaction_ids text[],
    p_ack_lease_ids uuid[],
    p_ack_statuses text[],
    p_ack_errors text[],
    p_op_cycles integer[],
    p_op_keys text[],
    p_op_values text[],
    p_op_window_ends double precision[],
    p_sink_ids uuid[],
    p_item_cycles integer[],
    p_item_partitions integer[],
    p_transaction_ids text[],
    p_trace_ids uuid[],
    p_payloads text[],
    p_producer_subs text[],
    p_queue_max integer,
    p_lock_timeout_ms integer,
    p_encrypted boolean[] DEFAULT NULL
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
    v_groups text[];
    v_errors text[];
    v_repeats boolean[];
    v_flushes boolean[];
    v_queues text[];
    v_names text[];
    v_cursors bigint[];
    v_live boolean[];
    v_starts integer[];
    v_ends integer[];
    v_ids text[];
    v_outcomes text;
    v_positions bigint[];
BEGIN
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    PERFORM queen.lock_cycles(p_query_ids, p_partition_ids, p_sink_ids);
    -- A cycle without an ack has no lease of its own. It may not pass by that of the group which consumes for the
    -- query, whatever group it names.
    v_groups := ARRAY(
        SELECT CASE WHEN c.tx IS NULL THEN coalesce(t.consumer_group::text, 'streams.' || q.name, c.g) ELSE c.g END
        FROM unnest(p_query_ids, p_partition_ids, p_consumer_groups, p_ack_transaction_ids) WITH ORDINALITY
             AS c (query_id, partition_id, g, tx, n)
        LEFT JOIN queen_streams.queries q ON q.id = c.query_id
        LEFT JOIN queen_streams.partitions t ON t.query_id = c.query_id AND t.partition_id = c.partition_id
        ORDER BY c.n);
    -- Lock first, then look: a statement of its own.
    SELECT array_agg(j.error ORDER BY j.ordinal), array_agg(j.is_repeat ORDER BY j.ordinal),
           array_agg(j.is_flush ORDER BY j.ordinal), array_agg(j.queue_name ORDER BY j.ordinal),
           array_agg(j.partition_name ORDER BY j.ordinal), array_agg(j.cursor_seq ORDER BY j.ordinal),
           array_agg(j.error IS NULL AND NOT j.is_repeat ORDER BY j.ordinal)
    INTO v_errors, v_repeats, v_flushes, v_queues, v_names, v_cursors, v_live
    FROM queen.judge_cycles(p_query_ids, p_partition_ids, v_groups, p_digests, p_versions,
                            p_ack_transaction_ids, p_ack_lease_ids, p_ack_statuses,
                            p_op_cycles, p_op_keys, p_op_values, p_item_cycles) j;
    IF false = ANY (v_live) THEN
        SELECT array_agg(o.cycle ORDER BY o.n), array_agg(o.key ORDER BY o.n), array_agg(o.value ORDER BY o.n),
               array_agg(o.window_end ORDER BY o.n)
        INTO p_op_cycles, p_op_keys, p_op_values, p_op_window_ends
        FROM unnest(p_op_cycles, p_op_keys, p_op_values, p_op_window_ends) WITH ORDINALITY
            AS o (cycle, key, value, window_end, n)
        WHERE v_live[o.cycle];
        SELECT array_agg(i.cycle ORDER BY i.n), array_agg(i.k ORDER BY i.n), array_agg(i.tx ORDER BY i.n),
               array_agg(i.trace_id ORDER BY i.n), array_agg(i.payload ORDER BY i.n), array_agg(i.sub ORDER BY i.n),
               array_agg(i.is_encrypted ORDER BY i.n)
        INTO p_item_cycles, p_item_partitions, p_transaction_ids, p_trace_ids, p_payloads, p_producer_subs,
             p_encrypted
        FROM unnest(p_item_cycles, p_item_partitions, p_transaction_ids, p_trace_ids, p_payloads, p_producer_subs,
                    p_encrypted)
            WITH ORDINALITY AS i (cycle, k, tx, trace_id, payload, sub, is_encrypted, n)
        WHERE v_live[i.cycle];
    END IF;

    SELECT array_agg(s.first ORDER BY s.n), array_agg(s.last ORDER BY s.n) INTO v_starts, v_ends
    FROM (SELECT c.n, min(i.n)::integer AS first, max(i.n)::integer AS last
          FROM generate_subscripts(p_query_ids, 1) AS c (n)
          LEFT JOIN unnest(p_item_cycles) WITH ORDINALITY AS i (cycle, n) ON i.cycle = c.n
          GROUP BY c.n) s;
    IF cardinality(p_item_cycles) > 0 THEN
        SELECT r.* INTO v_ids, v_outcomes, v_positions
        FROM queen.push_messages(
            p_sink_ids, p_item_partitions, p_transaction_ids, p_trace_ids, p_payloads, p_producer_subs,
            p_encrypted,
            ARRAY(SELECT e - s + 1 FROM unnest(v_starts, v_ends) WITH ORDINALITY AS u (s, e, n)
                  WHERE s IS NOT NULL ORDER BY n),
            NULL, p_queue_max, false, false, NULL) r;
        IF strpos(v_outcomes, 'f') > 0 THEN
            RAISE EXCEPTION 'A sink queue is full: its maxSize is reached; consume from it or raise maxSize'
                USING ERRCODE = 'QN002';
        END IF;
    END IF;

    -- Only now: cursors come after the rows that a push locks.
    PERFORM FROM queen.partition_consumers pc
    WHERE (pc.partition_id, pc.consumer_group) IN (
        SELECT u.p, u.g FROM unnest(p_partition_ids, v_groups, v_live) AS u (p, g, live) WHERE u.live)
    ORDER BY pc.partition_id, pc.consumer_group
    FOR UPDATE OF pc;
    PERFORM FROM unnest(p_partition_ids, v_groups, p_ack_transaction_ids, p_ack_lease_ids, v_cursors,
                        v_live, v_flushes) AS c (p, g, tx, lease_id, cursor_seq, live, is_flush)
    LEFT JOIN queen.partition_consumers pc ON pc.partition_id = c.p AND pc.consumer_group = c.g
    WHERE c.live
      AND ((c.tx IS NOT NULL AND pc.cursor_seq IS DISTINCT FROM c.cursor_seq)
           OR (c.tx IS NOT NULL AND c.lease_id IS NOT NULL
               AND (pc.lease_id IS DISTINCT FROM c.lease_id
                    OR coalesce(pc.lease_expires_at <= clock_timestamp(), true)))
           OR (c.is_flush AND pc.lease_expires_at > clock_timestamp()));
    IF FOUND THEN
        RAISE EXCEPTION 'The lease of the partition has just changed; pop again' USING ERRCODE = 'QN010';
    END IF;
    RETURN QUERY SELECT * FROM queen.finish_cycles(
        p_query_ids, p_partition_ids, v_groups, p_digests, p_keeps_lease, p_ack_transaction_ids,
        p_ack_lease_ids, p_ack_statuses, p_ack_errors, p_op_cycles, p_op_keys, p_op_values, p_op_window_ends,
        v_errors, v_repeats, v_queues, v_names, v_live, v_starts, v_ends,
        v_ids, v_outcomes, v_positions);
END
$$;
