-- Ack messages that were completed in the order of their delivery, for many leases in one call.
--
-- Nearly every ack is of this kind: a lease that is done, or done up to some message. It names all messages of the
-- lease, the next ones, or the last ones, which pass all before them. One read of those replaces a search for each. A
-- lease that is not live, or that names other messages, goes through ack_messages, with the same results.
--
-- Arguments: parallel arrays, one element per lease; a lease of a partition and group appears once. p_names: the
-- transaction ids of its messages, joined by line feeds, which none of them contains; p_counts: how many these are.
-- Result: places are the positions of the leases that were acked here, in any order. The four arrays after it have the
-- answer for all messages of such a lease. The arrays rest_* have the results of the other leases, one
-- element per message, in order of leases and messages.
-- Tables: partition_consumers (row locks, update), messages, partition_lookup, partitions, queues (read); those of
-- ack_messages.
-- Locks: cursor rows in (partition id, group) order.
-- Several small statements, because the start of a large one takes longer than all the work for one lease.
CREATE OR REPLACE FUNCTION queen.ack_completed(
    p_partition_ids uuid[],
    p_consumer_groups text[],
    p_lease_ids uuid[],
    p_counts integer[],
    p_names text[],
    p_lock_timeout_ms integer,
    OUT places bigint[],
    OUT queue_names text[],
    OUT partition_names text[],
    OUT are_released boolean[],
    OUT have_more boolean[],
    OUT rest_errors text[],
    OUT rest_queue_names text[],
    OUT rest_partition_names text[],
    OUT rest_released boolean[],
    OUT rest_more boolean[]
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now timestamptz;
    v_places bigint[];
    v_partition_ids uuid[];
    v_groups text[];
    v_counts integer[];
    v_names text[];
    v_cursor_seqs bigint[];
    v_end_seqs bigint[];
    v_pass_seqs bigint[];
    v_items record;
BEGIN
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    -- Lock first, then look.
    SELECT array_agg(k.n), array_agg(k.partition_id), array_agg(k.consumer_group), array_agg(k.count),
           array_agg(k.names), array_agg(k.cursor_seq), array_agg(CASE WHEN k.is_own THEN k.lease_end_seq END)
    INTO v_places, v_partition_ids, v_groups, v_counts, v_names, v_cursor_seqs, v_end_seqs
    FROM (
        SELECT u.n, u.partition_id, u.consumer_group, u.count, u.names, pc.cursor_seq, pc.lease_end_seq,
               pc.lease_id = u.lease_id AND pc.lease_expires_at > clock_timestamp() AS is_own
        FROM unnest(p_partition_ids, p_consumer_groups, p_lease_ids, p_counts, p_names) WITH ORDINALITY
             AS u (partition_id, consumer_group, lease_id, count, names, n)
        JOIN queen.partition_consumers pc
            ON pc.partition_id = u.partition_id AND pc.consumer_group = u.consumer_group
        ORDER BY pc.partition_id, pc.consumer_group
        FOR UPDATE OF pc
    ) k;
    v_now := clock_timestamp();

    SELECT array_agg(u.n), array_agg(u.partition_id), array_agg(u.consumer_group), array_agg(f.pass_seq),
           array_agg(q.name), array_agg(p.name), array_agg(f.pass_seq >= u.end_seq),
           array_agg(f.pass_seq >= u.end_seq AND l.last_seq > f.pass_seq)
    INTO places, v_partition_ids, v_groups, v_pass_seqs, queue_names, partition_names, are_released, have_more
    FROM unnest(v_places, v_partition_ids, v_groups, v_counts, v_names, v_cursor_seqs, v_end_seqs)
         AS u (n, partition_id, consumer_group, count, names, cursor_seq, end_seq)
    JOIN queen.partition_lookup l ON l.partition_id = u.partition_id
    JOIN queen.partitions p ON p.id = l.partition_id
    -- What keeps a history has more to write down.
    JOIN queen.queues q ON q.id = l.queue_id AND NOT q.ack_history
    -- The next messages of the lease, or its last ones. Gaps are for ack_messages.
    CROSS JOIN LATERAL (VALUES (u.cursor_seq),
                               (CASE WHEN u.end_seq - u.count > u.cursor_seq THEN u.end_seq - u.count END)) AS s (seq)
    CROSS JOIN LATERAL (
        SELECT s.seq + u.count AS pass_seq, count(*) AS count, string_agg(m.name, E'\n') AS names
        FROM (
            SELECT coalesce(x.transaction_id, x.id::text) AS name
            FROM queen.messages x
            WHERE x.partition_id = l.partition_id AND x.seq > s.seq AND x.seq <= s.seq + u.count
              AND x.seq <= u.end_seq
            ORDER BY x.seq
        ) m
    ) f
    WHERE f.count = u.count AND f.names = u.names;

    UPDATE queen.partition_consumers pc
    SET cursor_seq = d.pass_seq,
        lease_expires_at = CASE WHEN d.pass_seq < pc.lease_end_seq THEN pc.lease_expires_at END,
        retry_seq = CASE WHEN d.pass_seq < pc.retry_seq THEN pc.retry_seq END,
        retry_count = CASE WHEN d.pass_seq < pc.retry_seq THEN pc.retry_count ELSE 0 END,
        retry_error = CASE WHEN d.pass_seq < pc.retry_seq THEN pc.retry_error END,
        retry_at = NULL,
        expiry_count = 0,
        solo_until_seq = CASE WHEN pc.solo_until_seq > d.pass_seq THEN pc.solo_until_seq END,
        blocked_seq = CASE WHEN d.pass_seq < pc.blocked_seq THEN pc.blocked_seq END,
        last_consumed_at = v_now,
        total_consumed = pc.total_consumed + d.pass_seq - pc.cursor_seq
    FROM unnest(v_partition_ids, v_groups, v_pass_seqs) AS d (partition_id, consumer_group, pass_seq)
    WHERE pc.partition_id = d.partition_id AND pc.consumer_group = d.consumer_group;
    IF cardinality(places) = cardinality(p_names) THEN
        RETURN;
    END IF;

    SELECT array_agg(u.partition_id ORDER BY u.n, i.k) AS partition_ids,
           array_agg(u.consumer_group ORDER BY u.n, i.k) AS consumer_groups,
           array_agg(i.name ORDER BY u.n, i.k) AS names,
           array_agg(u.lease_id ORDER BY u.n, i.k) AS lease_ids,
           array_agg('completed'::text ORDER BY u.n, i.k) AS statuses
    INTO v_items
    FROM unnest(p_partition_ids, p_consumer_groups, p_lease_ids, p_names) WITH ORDINALITY
         AS u (partition_id, consumer_group, lease_id, names, n)
    CROSS JOIN LATERAL unnest(string_to_array(u.names, E'\n')) WITH ORDINALITY AS i (name, k)
    WHERE u.n <> ALL (coalesce(places, '{}'));
    SELECT array_agg(a.error ORDER BY a.ordinal), array_agg(a.queue_name ORDER BY a.ordinal),
           array_agg(a.partition_name ORDER BY a.ordinal), array_agg(a.lease_released ORDER BY a.ordinal),
           array_agg(a.has_more ORDER BY a.ordinal)
    INTO rest_errors, rest_queue_names, rest_partition_names, rest_released, rest_more
    FROM queen.ack_messages(
        v_items.partition_ids, v_items.consumer_groups, v_items.names, v_items.lease_ids, v_items.statuses,
        array_fill(NULL::text, ARRAY[cardinality(v_items.names)]), false, NULL) a;
END
$$;
