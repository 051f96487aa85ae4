-- Try to take candidate partitions for many pop requests, and say for each candidate what happened.
--
-- Arguments: parallel arrays, one element per candidate. Requests are numbered 1, 2, 3 ... in p_requests;
-- candidates of one request stand together, in the order in which they are to be taken until p_batches
-- messages are found. p_lease_ids holds one id per request, with the first bits of its first candidate
-- inside (find_lease). A pair (partition, group) that stands twice goes to its first candidate. p_lease_seconds:
-- how long the lease of a candidate is to last, NULL for the leaseTime of its queue.
-- Result: one row per candidate; none for one whose cursor was locked just then or does not exist, or that
-- stood twice. outcome: granted (after_seq < seq <= end_seq is taken), spare (the batch
-- was full before it), held (leased), retry, window, delayed (until due_at), blocked, poison (call
-- settle_poison, then try again), none (nothing to deliver). due_at of a granted one is the end of its lease.
-- Auto-acked grants move the cursor and leave no lease.
-- Tables: partition_consumers (row locks, update); partition_lookup, queues, messages (read).
-- Locks: cursor rows in (partition id, group) order, skipping rows that are locked. Never waits.
CREATE OR REPLACE FUNCTION queen.pop_sm_lease(
    p_requests integer[],
    p_partition_ids uuid[],
    p_consumer_groups text[],
    p_batches integer[],
    p_auto_acks boolean[],
    p_lease_ids uuid[],
    p_lease_seconds integer[] DEFAULT NULL
)
RETURNS SETOF queen.pop_grant
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now CONSTANT timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    WITH wanted AS (
        SELECT DISTINCT ON (u.partition_id, u.consumer_group) u.*
        FROM unnest(p_requests, p_partition_ids, p_consumer_groups, p_batches, p_auto_acks, p_lease_ids,
                    p_lease_seconds)
             WITH ORDINALITY
             AS u (request, partition_id, consumer_group, batch, is_auto_ack, new_lease, lease_seconds, ordinal)
        ORDER BY u.partition_id, u.consumer_group, u.ordinal
    ), locked AS (
        SELECT w.request, w.batch, w.is_auto_ack, w.new_lease, w.lease_seconds, w.ordinal, pc.partition_id, pc.consumer_group,
               pc.cursor_seq, pc.lease_expires_at, pc.lease_end_seq, pc.retry_at, pc.retry_count,
               pc.expiry_count, pc.solo_until_seq, pc.blocked_seq
        FROM wanted w
        JOIN queen.partition_consumers pc
            ON pc.partition_id = w.partition_id AND pc.consumer_group = w.consumer_group
        ORDER BY pc.partition_id, pc.consumer_group
        FOR UPDATE OF pc SKIP LOCKED
    ), seen AS (
        SELECT k.*, l.queue_id, l.last_seq, l.last_message_created_at, q.retry_limit, q.on_poison,
               q.delayed_processing, q.window_buffer, q.ack_history,
               make_interval(secs => coalesce(k.lease_seconds, nullif(q.lease_time, 0), 60)) AS lease_time,
               greatest(k.cursor_seq, l.first_seq - 1) AS after_seq,
               coalesce(k.lease_expires_at <= v_now, false) AS is_expired,
               coalesce(k.solo_until_seq > k.cursor_seq, false) AS was_solo
        FROM locked k
        JOIN queen.partition_lookup l ON l.partition_id = k.partition_id
        JOIN queen.queues q ON q.id = l.queue_id
    ), ruled AS (
        -- A batch whose lease ran out retryLimit times is leased one message at a time from now on.
        SELECT s.*,
               CASE WHEN s.is_expired AND s.expiry_count + 1 >= greatest(s.retry_limit, 1)
                         AND NOT s.was_solo
                    THEN s.lease_end_seq ELSE s.solo_until_seq END AS solo_seq
        FROM seen s
    ), sized AS MATERIALIZED (
        SELECT r.*,
               CASE WHEN r.solo_seq > r.after_seq THEN 1 ELSE r.batch END AS quota,
               CASE WHEN r.delayed_processing = 0 THEN r.last_seq
                    -- Where all messages have been deleted, nothing is worth waiting for.
                    ELSE (SELECT CASE WHEN count(*) = 0 THEN r.last_seq ELSE max(d.seq) FILTER (
                              WHERE d.created_at <= v_now - make_interval(secs => r.delayed_processing)) END
                          FROM (SELECT m.seq, m.created_at FROM queen.messages m
                                WHERE m.partition_id = r.partition_id AND m.seq > r.after_seq
                                ORDER BY m.seq LIMIT r.batch) d)
               END AS due_seq
        FROM ruled r
    ), judged AS (
        SELECT z.*,
               CASE WHEN z.lease_expires_at > v_now THEN 'held'
                    WHEN z.blocked_seq IS NOT NULL AND z.on_poison = 'block' THEN 'blocked'
                    WHEN z.is_expired AND z.was_solo THEN 'poison'
                    WHEN z.last_seq <= z.after_seq THEN 'none'
                    WHEN z.retry_at > v_now THEN 'retry'
                    WHEN z.window_buffer > 0 AND z.last_message_created_at
                         > v_now - make_interval(secs => z.window_buffer) THEN 'window'
                    WHEN z.due_seq IS NULL THEN 'delayed'
                    ELSE 'granted' END AS verdict
        FROM sized z
    ), shared AS MATERIALIZED (
        SELECT j.*,
               CASE WHEN j.verdict = 'granted' THEN greatest(0, least(
                   j.quota, j.due_seq - j.after_seq,
                   j.batch - coalesce(sum(CASE WHEN j.verdict = 'granted'
                                               THEN least(j.quota, j.due_seq - j.after_seq) END)
                       OVER (PARTITION BY j.request ORDER BY j.ordinal
                             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)))::bigint
                    ELSE 0 END AS take
        FROM judged j
    ), taken AS (
        UPDATE queen.partition_consumers pc
        SET lease_id = CASE WHEN NOT n.is_auto_ack THEN n.new_lease END,
            lease_acquired_at = CASE WHEN n.is_auto_ack THEN pc.lease_acquired_at ELSE v_now END,
            lease_expires_at = CASE WHEN n.is_auto_ack THEN NULL ELSE v_now + n.lease_time END,
            lease_end_seq = n.after_seq + n.take,
            cursor_seq = CASE WHEN n.is_auto_ack THEN n.after_seq + n.take ELSE n.after_seq END,
            retry_count = CASE WHEN n.is_auto_ack OR pc.retry_seq <= n.after_seq
                               THEN 0 ELSE pc.retry_count END,
            retry_seq = CASE WHEN n.is_auto_ack OR pc.retry_seq <= n.after_seq
                             THEN NULL ELSE pc.retry_seq END,
            retry_at = NULL,
            expiry_count = CASE WHEN n.is_auto_ack THEN 0
                                WHEN n.is_expired THEN pc.expiry_count + 1 ELSE pc.expiry_count END,
            solo_until_seq = CASE WHEN n.solo_seq > n.after_seq AND NOT n.is_auto_ack
                                  THEN n.solo_seq END,
            blocked_seq = NULL,
            last_served_at = v_now,
            last_consumed_at = CASE WHEN n.is_auto_ack THEN v_now ELSE pc.last_consumed_at END,
            total_consumed = pc.total_consumed + CASE WHEN n.is_auto_ack THEN n.take ELSE 0 END,
            total_batches = pc.total_batches + 1
        FROM shared n
        WHERE n.take > 0
          AND pc.partition_id = n.partition_id AND pc.consumer_group = n.consumer_group
    )
    SELECT n.request, n.partition_id, n.consumer_group,
           CASE WHEN n.take = 0 THEN CASE WHEN n.verdict = 'granted' THEN 'spare' ELSE n.verdict END
                -- Here and not in the UPDATE, which works a row out twice if another session has just changed it.
                WHEN CASE WHEN n.ack_history THEN queen.note_passed(
                         n.queue_id, n.partition_id, n.consumer_group, n.cursor_seq, n.after_seq,
                         CASE WHEN n.is_auto_ack THEN n.after_seq + n.take ELSE n.after_seq END,
                         v_now, v_now, 'autoAck', 0, n.retry_count + n.expiry_count + n.is_expired::integer)
                     ELSE true END
                     -- A sequence counts for all brokers and makes no two pops wait for each other.
                     AND CASE WHEN n.is_expired THEN nextval('queen.expired_leases') > 0 ELSE true END
                     THEN 'granted' END,
           CASE WHEN n.take > 0 AND NOT n.is_auto_ack THEN n.new_lease END,
           n.after_seq, n.after_seq + n.take,
           n.retry_count + n.expiry_count + n.is_expired::integer,
           n.last_seq > n.after_seq + n.take,
           CASE n.verdict
               WHEN 'granted' THEN CASE WHEN n.take > 0 AND NOT n.is_auto_ack THEN v_now + n.lease_time END
               WHEN 'held' THEN n.lease_expires_at
               WHEN 'retry' THEN n.retry_at
               WHEN 'window' THEN n.last_message_created_at + make_interval(secs => n.window_buffer)
               WHEN 'delayed' THEN (
                   SELECT m.created_at + make_interval(secs => n.delayed_processing)
                   FROM queen.messages m
                   WHERE m.partition_id = n.partition_id AND m.seq > n.after_seq
                   ORDER BY m.seq LIMIT 1) END
    FROM shared n;
END
$$;
