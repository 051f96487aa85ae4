-- Return the facts about why a consumer group does or does not make progress on a queue.
--
-- Arguments: p_queue_name; p_partition_name (NULL: all); p_consumer_group, NULL for the default group or, where
-- only others are on the queue, the one that has most before it; p_details: how many partitions are described.
-- Result: one JSON object for engine/diagnosis/findings.py, which says what the fields mean and what follows from them;
-- NULL when there is no such queue. Reads lookup and cursor rows of the queue, and one message for each of at most
-- 1,000 partitions that have any. Takes no locks.
CREATE OR REPLACE FUNCTION queen.queue_facts(
    p_queue_name text,
    p_partition_name text,
    p_consumer_group text,
    p_details integer
)
RETURNS json
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    c_oldest_max CONSTANT integer := 1000;
    v_now CONSTANT timestamptz := clock_timestamp();
    v_queue queen.queues;
    v_partition_ids uuid[];
    v_groups text[];
    v_group text := p_consumer_group;
    v_has_start boolean;
    v_behind json;
    v_line json;
    v_letters json;
BEGIN
    SELECT * INTO v_queue FROM queen.queues WHERE name = p_queue_name;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF p_partition_name IS NOT NULL THEN
        v_partition_ids := ARRAY(SELECT id FROM queen.partitions
                                 WHERE queue_id = v_queue.id AND name = p_partition_name);
    END IF;
    SELECT coalesce(array_agg(g.name ORDER BY g.lag DESC, g.name), '{}') INTO v_groups
    FROM (
        SELECT k.consumer_group AS name, coalesce(sum(p.last_seq - p.after_seq), 0) AS lag
        FROM queen.queue_groups(v_queue.id, v_queue.name) k
        LEFT JOIN queen.group_positions(v_queue.id, NULL) p ON p.consumer_group = k.consumer_group
        GROUP BY k.consumer_group
    ) g;
    IF v_group IS NULL THEN
        v_group := CASE WHEN '__QUEUE_MODE__' = ANY (v_groups) OR cardinality(v_groups) = 0
                        THEN '__QUEUE_MODE__' ELSE v_groups[1] END;
    END IF;

    v_has_start := EXISTS (SELECT FROM queen.group_starts(v_queue.name, v_group));

    WITH pending AS MATERIALIZED (
        SELECT f.partition_id, f.due_at, l.first_seq, l.last_seq, l.last_message_created_at, c.consumer_group,
               c.lease_id, c.lease_acquired_at, c.lease_expires_at, c.lease_end_seq, c.retry_at, c.retry_count,
               c.retry_seq, c.retry_error,
               c.expiry_count, c.solo_until_seq, c.blocked_seq, c.last_consumed_at,
               CASE WHEN f.due_at <= v_now THEN 'ready' WHEN f.why = 'l' THEN 'leased'
                    WHEN f.why = 'b' THEN 'blocked' ELSE 'waiting' END AS state,
               a.seq AS after_seq,
               (SELECT count(*) FROM queen.removed_messages r
                WHERE r.partition_id = l.partition_id AND r.seq > a.seq) AS removed,
               row_number() OVER (ORDER BY f.why = 'b' DESC, f.due_at DESC, f.partition_id) AS n
        FROM queen.pending_partitions(p_queue_name, NULL, NULL, v_group, v_partition_ids) f
        JOIN queen.partition_lookup l ON l.partition_id = f.partition_id
        LEFT JOIN queen.partition_consumers c
            ON c.partition_id = f.partition_id AND c.consumer_group = v_group
        CROSS JOIN LATERAL (
            SELECT greatest(c.cursor_seq, l.first_seq - 1,
                            CASE WHEN c.consumer_group IS NULL AND v_has_start
                                 THEN queen.start_seq(l.partition_id, v_group) END) AS seq
        ) a
        WHERE l.last_seq > a.seq
    ), seen AS MATERIALIZED (
        SELECT d.*, m.created_at, coalesce(m.transaction_id, m.id::text) AS transaction_id
        FROM pending d
        LEFT JOIN LATERAL (
            SELECT x.created_at, x.transaction_id, x.id FROM queen.messages x
            WHERE x.partition_id = d.partition_id AND x.seq > d.after_seq ORDER BY x.seq LIMIT 1
        ) m ON true
        WHERE d.n <= greatest(c_oldest_max, p_details)
    )
    SELECT json_build_object(
        'behind', (SELECT count(*) FROM pending),
        'ready', (SELECT count(*) FROM pending d WHERE d.state = 'ready'),
        'leased', (SELECT count(*) FROM pending d WHERE d.state = 'leased'),
        'waiting', (SELECT count(*) FROM pending d WHERE d.state = 'waiting'),
        'blocked', (SELECT count(*) FROM pending d WHERE d.state = 'blocked'),
        'backlog', (SELECT coalesce(sum(d.last_seq - d.after_seq - d.removed), 0) FROM pending d),
        'oldest_at', (SELECT min(s.created_at) FROM seen s),
        'details', (
            SELECT coalesce(json_agg(json_build_object(
                'partition', p.name, 'partition_id', s.partition_id, 'state', s.state,
                'backlog', s.last_seq - s.after_seq - s.removed, 'has_cursor', s.consumer_group IS NOT NULL,
                'oldest_id', s.transaction_id, 'oldest_at', s.created_at, 'lease_id', s.lease_id,
                'lease_acquired_at', s.lease_acquired_at, 'lease_expires_at', s.lease_expires_at,
                'lease_messages', CASE WHEN s.lease_expires_at IS NOT NULL THEN s.lease_end_seq - s.after_seq END,
                'retry_count', coalesce(s.retry_count, 0), 'retry_at', s.retry_at,
                'retry_error', CASE WHEN s.retry_seq > s.after_seq THEN s.retry_error END,
                'expiry_count', coalesce(s.expiry_count, 0),
                'is_solo', coalesce(s.solo_until_seq > s.after_seq, false),
                'blocked_id', (SELECT coalesce(b.transaction_id, b.id::text) FROM queen.messages b
                               WHERE b.partition_id = s.partition_id AND b.seq = s.blocked_seq),
                'newest_at', s.last_message_created_at, 'last_consumed_at', s.last_consumed_at)
                ORDER BY s.n), '[]')
            FROM seen s JOIN queen.partitions p ON p.id = s.partition_id
            WHERE s.n <= p_details))
    INTO v_behind;

    SELECT json_build_object(
        'pending', count(*) FILTER (WHERE o.status = 'pending'),
        'processing', count(*) FILTER (WHERE o.status = 'processing'),
        'failed', count(*) FILTER (WHERE o.status = 'failed'),
        'first', (array_agg(json_build_object(
            'id', o.id, 'partition', o.partition_name, 'status', o.status, 'error', o.error_message,
            'claimed_by', o.claimed_by_worker, 'created_at', o.created_at)
            ORDER BY o.status = 'failed' DESC, o.created_at))[1])
    INTO v_line
    FROM queen.operation_queue o
    WHERE o.is_blocking AND o.queue_id = v_queue.id
      AND (v_partition_ids IS NULL OR o.partition_id = ANY (v_partition_ids));

    SELECT json_build_object(
        'partition', p.name, 'transaction_id', d.transaction_id, 'error', d.error_message,
        'failed_at', d.failed_at)
    INTO v_letters
    FROM (SELECT x.* FROM queen.dead_letter_queue x WHERE x.queue_id = v_queue.id
          ORDER BY x.failed_at DESC LIMIT c_oldest_max) d
    JOIN queen.partitions p ON p.id = d.partition_id
    WHERE d.consumer_group = v_group AND (v_partition_ids IS NULL OR d.partition_id = ANY (v_partition_ids))
    ORDER BY d.failed_at DESC LIMIT 1;

    RETURN json_build_object(
        'now', v_now, 'queue', v_queue.name, 'namespace', v_queue.namespace, 'task', v_queue.task,
        'partition', p_partition_name, 'consumer_group', v_group,
        'groups', v_groups[1:20], 'has_cursor', EXISTS (
            SELECT FROM queen.partition_consumers c
            WHERE c.queue_id = v_queue.id AND c.consumer_group = v_group),
        'partitions', (SELECT count(*) FROM queen.partition_lookup l WHERE l.queue_id = v_queue.id
                       AND (v_partition_ids IS NULL OR l.partition_id = ANY (v_partition_ids))),
        'lease_time', v_queue.lease_time, 'retry_limit', v_queue.retry_limit,
        'delayed_processing', v_queue.delayed_processing, 'window_buffer', v_queue.window_buffer,
        'on_poison', v_queue.on_poison, 'max_size', v_queue.max_size,
        'waiting_messages', (SELECT coalesce(sum(n.pending + n.processing), 0)
                             FROM queen.partition_counts(v_queue.id) n WHERE v_queue.max_size > 0),
        'start', (SELECT json_build_object('mode', g.subscription_mode, 'at', g.subscription_timestamp)
                  FROM queen.consumer_groups_metadata g
                  WHERE g.queue_name = v_queue.name AND g.consumer_group = v_group
                    AND g.partition_name IN ('', coalesce(p_partition_name, ''))
                  ORDER BY g.partition_name DESC LIMIT 1),
        'behind', v_behind, 'operations', v_line, 'last_dead_letter', v_letters);
END
$$;
