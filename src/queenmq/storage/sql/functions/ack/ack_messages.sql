-- Ack delivered messages, for the items of one or many ack requests.
--
-- Arguments: parallel arrays, one element per item. A NULL lease id means that none was given. With
-- p_is_final a failure is not retried: failed means dlq, and retry is refused (acks in a transaction).
-- Per (partition, group) the items are applied in message order, whatever the request order, up to the first one that
-- asks for a redelivery. Nothing after that one is applied.
--   completed, success  the cursor moves to the message; all before it have passed with it
--   failed              redelivery from the cursor after the queue's retry delay while this message has retries
--                       left, else dead letter
--   retry               redelivery at once that does not count
--   dlq                 dead letter
-- A cursor never moves back: acking what has already passed succeeds and changes nothing.
-- Result: one row per item. has_more: the partition has messages after the cursor and no live lease.
-- Tables: partition_consumers (insert, row locks, update), dead_letter_queue, ack_history (insert), messages,
-- partition_lookup, partitions, queues (read).
-- Locks: for items without a lease id those of create_cursors; cursor rows in (partition id, group) order.
CREATE OR REPLACE FUNCTION queen.ack_messages(
    p_partition_ids uuid[],
    p_consumer_groups text[],
    p_transaction_ids text[],
    p_lease_ids uuid[],
    p_statuses text[],
    p_errors text[],
    p_is_final boolean,
    p_lock_timeout_ms integer
)
RETURNS TABLE (
    ordinal integer,
    success boolean,
    error text,
    queue_name text,
    partition_name text,
    lease_released boolean,
    dlq boolean,
    has_more boolean
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    -- The rest of a longer error is only in a dead letter.
    c_error_length CONSTANT integer := 1000;
    v_now timestamptz;
BEGIN
    IF p_lock_timeout_ms IS NOT NULL THEN
        PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    END IF;
    -- Not for an ack under a lease: where the cursor is gone, so is the lease, and a refused ack changes nothing.
    IF array_position(p_lease_ids, NULL) IS NOT NULL THEN
        PERFORM queen.create_cursors(array_agg(u.p), array_agg(u.g), true)
        FROM unnest(p_partition_ids, p_consumer_groups, p_lease_ids) AS u (p, g, l)
        WHERE u.l IS NULL;
    END IF;
    -- Lock first, then look.
    PERFORM FROM queen.partition_consumers pc
    WHERE (pc.partition_id, pc.consumer_group) IN (
        SELECT u.p, u.g FROM unnest(p_partition_ids, p_consumer_groups) AS u (p, g))
    ORDER BY pc.partition_id, pc.consumer_group
    FOR UPDATE OF pc;
    v_now := clock_timestamp();

    RETURN QUERY
    WITH item AS (
        SELECT u.*, coalesce(given.seq, made.seq) AS seq
        FROM unnest(p_partition_ids, p_consumer_groups, p_transaction_ids, p_lease_ids, p_statuses,
                    p_errors)
             WITH ORDINALITY
             AS u (partition_id, consumer_group, transaction_id, lease_id, status, error, ordinal)
        LEFT JOIN LATERAL (
            SELECT m.seq FROM queen.messages m
            WHERE m.partition_id = u.partition_id AND m.transaction_id = u.transaction_id
        ) given ON true
        LEFT JOIN LATERAL (
            SELECT m.seq FROM queen.messages m
            WHERE m.partition_id = u.partition_id
              AND m.seq = CASE WHEN given.seq IS NULL
                               THEN queen.seq_of_message_id(u.partition_id, u.transaction_id) END
              AND m.id::text = u.transaction_id AND m.transaction_id IS NULL
        ) made ON true
    ), known AS (
        SELECT i.*, q.name AS queue_name, p.name AS partition_name, q.retry_limit, q.retry_delay,
               q.ack_history, pc.cursor_seq, pc.lease_end_seq, l.last_seq,
               CASE WHEN pc.retry_seq = i.seq THEN pc.retry_count ELSE 0 END AS retries,
               coalesce(pc.lease_expires_at > v_now, false) AS is_leased,
               i.lease_id IS NULL OR coalesce(i.lease_id = pc.lease_id, false) AS is_own_lease
        FROM item i
        LEFT JOIN queen.partition_lookup l ON l.partition_id = i.partition_id
        LEFT JOIN queen.partition_consumers pc
            ON pc.partition_id = i.partition_id AND pc.consumer_group = i.consumer_group
        LEFT JOIN queen.partitions p ON p.id = i.partition_id
        LEFT JOIN queen.queues q ON q.id = p.queue_id
    ), judged AS (
        SELECT k.*, CASE
                WHEN k.status NOT IN ('completed', 'success', 'failed', 'dlq', 'retry')
                     OR (p_is_final AND k.status = 'retry') THEN 'unknown'
                WHEN k.seq IS NULL THEN 'missing'
                WHEN NOT k.is_own_lease THEN 'stale'
                WHEN k.cursor_seq IS NULL THEN 'missing'
                WHEN k.seq <= k.cursor_seq
                    THEN CASE WHEN k.status IN ('completed', 'success') THEN 'already' ELSE 'passed' END
                WHEN k.lease_id IS NOT NULL AND NOT k.is_leased THEN 'stale'
                WHEN k.status IN ('completed', 'success')
                    THEN CASE WHEN k.lease_id IS NOT NULL AND k.seq > k.lease_end_seq
                              THEN 'foreign' ELSE 'pass' END
                WHEN NOT k.is_leased OR k.seq > k.lease_end_seq THEN 'foreign'
                WHEN k.status = 'dlq' OR p_is_final OR (k.status = 'failed' AND k.retries >= k.retry_limit)
                    THEN 'bury'
                ELSE 'stop' END AS verdict
        FROM known k
    ), ruled AS (
        SELECT j.*, min(j.seq) FILTER (WHERE j.verdict = 'stop') OVER pair AS stop_seq
        FROM judged j
        WINDOW pair AS (PARTITION BY j.partition_id, j.consumer_group)
    ), settled AS MATERIALIZED (
        SELECT r.*, r.verdict IN ('pass', 'bury') AND (r.stop_seq IS NULL OR r.seq < r.stop_seq) AS is_applied,
               max(r.seq) FILTER (WHERE r.verdict IN ('pass', 'bury')
                                    AND (r.stop_seq IS NULL OR r.seq < r.stop_seq)) OVER pair AS pass_seq
        FROM ruled r
        WINDOW pair AS (PARTITION BY r.partition_id, r.consumer_group)
    ), moved AS (
        UPDATE queen.partition_consumers pc
        SET cursor_seq = greatest(pc.cursor_seq, d.pass_seq),
            lease_expires_at = CASE WHEN d.stop_seq IS NULL AND d.pass_seq < pc.lease_end_seq
                                    THEN pc.lease_expires_at END,
            retry_seq = CASE WHEN d.stop_seq IS NOT NULL THEN d.stop_seq
                             WHEN d.pass_seq < pc.retry_seq THEN pc.retry_seq END,
            retry_count = CASE WHEN d.stop_seq IS NOT NULL THEN d.stop_retries
                               WHEN d.pass_seq < pc.retry_seq THEN pc.retry_count ELSE 0 END,
            retry_error = CASE WHEN d.stop_seq IS NOT NULL THEN d.stop_error
                               WHEN d.pass_seq < pc.retry_seq THEN pc.retry_error END,
            -- What was given back unhandled has no reason to wait.
            retry_at = CASE WHEN d.is_failed AND d.retry_delay > 0
                            THEN v_now + make_interval(secs => d.retry_delay / 1000.0) END,
            expiry_count = CASE WHEN d.pass_seq IS NULL THEN pc.expiry_count ELSE 0 END,
            solo_until_seq = CASE WHEN pc.solo_until_seq > coalesce(d.pass_seq, pc.cursor_seq)
                                  THEN pc.solo_until_seq END,
            blocked_seq = CASE WHEN d.pass_seq < pc.blocked_seq THEN pc.blocked_seq END,
            -- The rows were locked by a statement of its own, so this is worked out once for each of them.
            last_consumed_at = CASE
                WHEN d.pass_seq IS NULL THEN pc.last_consumed_at
                WHEN CASE WHEN d.ack_history THEN queen.note_passed(
                         pc.queue_id, pc.partition_id, pc.consumer_group, pc.cursor_seq, pc.cursor_seq, d.pass_seq,
                         CASE WHEN pc.lease_expires_at IS NOT NULL AND d.pass_seq <= pc.lease_end_seq
                              THEN pc.lease_acquired_at END,
                         v_now, 'ack',
                         (SELECT count(DISTINCT s.seq) FROM settled s
                          WHERE s.partition_id = pc.partition_id AND s.consumer_group = pc.consumer_group
                            AND s.is_applied AND s.verdict = 'bury'),
                         pc.expiry_count + CASE WHEN pc.retry_seq <= d.pass_seq THEN pc.retry_count ELSE 0 END)
                     ELSE true END THEN v_now END,
            total_consumed = pc.total_consumed + coalesce(d.pass_seq - pc.cursor_seq, 0)
        FROM (
            SELECT s.partition_id, s.consumer_group, s.retry_delay, s.ack_history, max(s.pass_seq) AS pass_seq,
                   max(s.stop_seq) AS stop_seq,
                   max(s.retries + (s.status = 'failed')::integer) FILTER (WHERE s.seq = s.stop_seq)
                       AS stop_retries,
                   bool_or(s.status = 'failed') FILTER (WHERE s.seq = s.stop_seq) AS is_failed,
                   max(left(nullif(s.error, ''), c_error_length)) FILTER (WHERE s.seq = s.stop_seq)
                       AS stop_error
            FROM settled s
            GROUP BY s.partition_id, s.consumer_group, s.retry_delay, s.ack_history
        ) d
        WHERE (d.pass_seq IS NOT NULL OR d.stop_seq IS NOT NULL)
          AND pc.partition_id = d.partition_id AND pc.consumer_group = d.consumer_group
    )
    SELECT s.ordinal::integer,
           s.is_applied OR s.verdict IN ('already', 'stop')
               OR (s.verdict = 'bury' AND s.status = 'failed'),
           CASE s.verdict
               WHEN 'missing' THEN 'Message not found'
               WHEN 'stale' THEN 'Invalid or expired lease'
               WHEN 'foreign' THEN 'Message is not leased to this consumer group'
               WHEN 'passed' THEN 'Message was already consumed'
               WHEN 'unknown' THEN format('status %s is not one of completed, failed, %s', s.status,
                                          CASE WHEN p_is_final THEN 'dlq' ELSE 'retry, dlq' END)
               WHEN 'stop' THEN NULL
               ELSE CASE WHEN NOT s.is_applied AND s.verdict <> 'already' AND s.status <> 'failed' THEN
                   'Not applied: an earlier message of the batch is to be redelivered' END END,
           s.queue_name::text, s.partition_name::text,
           s.verdict IN ('pass', 'bury', 'stop') AND s.is_leased
               AND (s.stop_seq IS NOT NULL OR s.pass_seq >= s.lease_end_seq),
           CASE WHEN s.is_applied AND s.verdict = 'bury'
                THEN queen.dead_letter(s.partition_id, s.consumer_group, s.seq, s.retries,
                                       coalesce(nullif(s.error, ''), 'Retries exhausted'))
                ELSE false END,
           s.last_seq > greatest(s.cursor_seq, s.pass_seq)
               AND (NOT s.is_leased OR s.stop_seq IS NOT NULL OR s.pass_seq >= s.lease_end_seq)
    FROM settled s
    ORDER BY s.ordinal;
END
$$;
