-- Take partitions for pop requests where no rule but the simplest one applies; pop_sm_lease does all others.
--
-- Arguments: those of pop_sm_lease, with one candidate per request. p_apart_count: a lease over more messages is left
-- to pop_sm_lease (NULL: none is).
-- Result: the grants of what was taken. A candidate without one is leased, locked, waits for something, has been tried
-- before, is of a queue with a delay, a window or a history, has nothing to deliver, or does not exist.
-- Tables: partition_consumers (row locks, update); partition_lookup, queues (read).
-- Locks: cursor rows in (partition id, group) order, skipping rows that are locked. Never waits.
-- Two small statements, because the start of pop_sm_lease takes longer than the work for several candidates.
CREATE OR REPLACE FUNCTION queen.lease_plain(
    p_requests integer[],
    p_partition_ids uuid[],
    p_consumer_groups text[],
    p_batches integer[],
    p_auto_acks boolean[],
    p_lease_ids uuid[],
    p_lease_seconds integer[],
    p_apart_count integer
)
RETURNS queen.pop_grant[]
LANGUAGE plpgsql
AS $$
DECLARE
    c_now CONSTANT timestamptz := clock_timestamp();
    v_requests integer[];
    v_partition_ids uuid[];
    v_groups text[];
    v_auto_acks boolean[];
    v_lease_ids uuid[];
    v_after_seqs bigint[];
    v_end_seqs bigint[];
    v_last_seqs bigint[];
    v_lease_times integer[];
    v_grants queen.pop_grant[];
BEGIN
    SELECT array_agg(k.request), array_agg(k.partition_id), array_agg(k.consumer_group), array_agg(k.is_auto_ack),
           array_agg(k.lease_id), array_agg(k.after_seq), array_agg(least(k.after_seq + k.batch, k.last_seq)),
           array_agg(k.last_seq), array_agg(k.lease_time)
    INTO v_requests, v_partition_ids, v_groups, v_auto_acks, v_lease_ids, v_after_seqs, v_end_seqs, v_last_seqs,
         v_lease_times
    FROM (
        SELECT u.request, u.partition_id, u.consumer_group, u.batch, u.is_auto_ack, u.lease_id, l.last_seq,
               greatest(pc.cursor_seq, l.first_seq - 1) AS after_seq,
               coalesce(u.lease_seconds, nullif(q.lease_time, 0), 60) AS lease_time
        FROM unnest(p_requests, p_partition_ids, p_consumer_groups, p_batches, p_auto_acks, p_lease_ids,
                    p_lease_seconds)
             AS u (request, partition_id, consumer_group, batch, is_auto_ack, lease_id, lease_seconds)
        JOIN queen.partition_consumers pc
            ON pc.partition_id = u.partition_id AND pc.consumer_group = u.consumer_group
        JOIN queen.partition_lookup l ON l.partition_id = u.partition_id
        JOIN queen.queues q ON q.id = l.queue_id
        WHERE pc.lease_expires_at IS NULL AND pc.retry_seq IS NULL AND pc.retry_at IS NULL AND pc.expiry_count = 0
          AND pc.solo_until_seq IS NULL AND pc.blocked_seq IS NULL
          AND l.last_seq > greatest(pc.cursor_seq, l.first_seq - 1)
          AND q.delayed_processing = 0 AND q.window_buffer = 0 AND NOT q.ack_history
          AND (p_apart_count IS NULL OR u.is_auto_ack OR u.batch <= p_apart_count)
        ORDER BY pc.partition_id, pc.consumer_group
        FOR UPDATE OF pc SKIP LOCKED
    ) k;
    IF v_requests IS NULL THEN
        RETURN '{}';
    END IF;

    WITH taken AS (
        UPDATE queen.partition_consumers pc
        SET lease_id = CASE WHEN NOT n.is_auto_ack THEN n.lease_id END,
            lease_acquired_at = CASE WHEN n.is_auto_ack THEN pc.lease_acquired_at ELSE c_now END,
            lease_expires_at = CASE WHEN NOT n.is_auto_ack THEN c_now + make_interval(secs => n.lease_time) END,
            lease_end_seq = n.end_seq,
            cursor_seq = CASE WHEN n.is_auto_ack THEN n.end_seq ELSE n.after_seq END,
            last_served_at = c_now,
            last_consumed_at = CASE WHEN n.is_auto_ack THEN c_now ELSE pc.last_consumed_at END,
            total_consumed = pc.total_consumed + CASE WHEN n.is_auto_ack THEN n.end_seq - n.after_seq ELSE 0 END,
            total_batches = pc.total_batches + 1
        FROM unnest(v_requests, v_partition_ids, v_groups, v_auto_acks, v_lease_ids, v_after_seqs, v_end_seqs,
                    v_last_seqs, v_lease_times)
             AS n (request, partition_id, consumer_group, is_auto_ack, lease_id, after_seq, end_seq, last_seq,
                   lease_time)
        WHERE pc.partition_id = n.partition_id AND pc.consumer_group = n.consumer_group
        RETURNING (n.request, n.partition_id, n.consumer_group, 'granted', pc.lease_id, n.after_seq, n.end_seq, 0,
                   n.last_seq > n.end_seq, pc.lease_expires_at)::queen.pop_grant AS taken
    )
    SELECT array_agg(t.taken) INTO v_grants FROM taken t;
    RETURN coalesce(v_grants, '{}');
END
$$;
