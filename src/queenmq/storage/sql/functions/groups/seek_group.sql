-- Move a consumer group on a queue: its cursor in every partition, or in the one that is named, goes to the
-- last message that was created at or before p_time (none: to the very start), or with a NULL time to the
-- newest message.
--
-- Only where the group has a cursor or a remembered start. Without a partition the start moves as well, and with
-- it the group in all partitions in which it has no cursor; in a partition that is named it gets one. Leases end,
-- so that acks under them are refused. Retries and the poison-message rule start over. Brokers are notified on commit,
-- and look up the whole queue again.
-- Result: a row per partition in which the group was moved, and the creation time of the message it stands at
-- (NULL: none, or it has no cursor there).
-- Tables: queues, consumer_groups_metadata, partition_consumers (row locks, update), partition_consumers,
-- ack_history (insert); partitions, partition_lookup, messages (read).
-- Locks: the queue's row (FOR NO KEY UPDATE), metadata rows by partition name, the advisory lock of the queue and
-- group that create_cursors takes, so that no cursor is made from the old start, then cursor rows in partition
-- id order.
CREATE OR REPLACE FUNCTION queen.seek_group(
    p_consumer_group text,
    p_queue_name text,
    p_partition_name text,
    p_time timestamptz
)
RETURNS TABLE (partition_id uuid, moved_to timestamptz)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    -- Times have microseconds; the first one after p_time is the next.
    v_from CONSTANT timestamptz := p_time + interval '1 microsecond';
    v_queue_id uuid;
    v_named_id uuid;
    v_partition_ids uuid[];
    v_keeps boolean;
    v_has_start boolean := false;
BEGIN
    UPDATE queen.queues SET changed_xid = pg_current_xact_id() WHERE name = p_queue_name
    RETURNING id, ack_history INTO v_queue_id, v_keeps;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF p_partition_name IS NOT NULL THEN
        SELECT p.id INTO v_named_id FROM queen.partitions p
        WHERE p.queue_id = v_queue_id AND p.name = p_partition_name;
        v_has_start := EXISTS (
            SELECT FROM queen.consumer_groups_metadata g
            WHERE g.queue_name = p_queue_name AND g.consumer_group = p_consumer_group
              AND g.partition_name IN ('', p_partition_name));
    ELSE
        PERFORM FROM queen.consumer_groups_metadata g
        WHERE g.queue_name = p_queue_name AND g.consumer_group = p_consumer_group
        ORDER BY g.partition_name FOR NO KEY UPDATE;
        UPDATE queen.consumer_groups_metadata g
        SET subscription_mode = CASE WHEN p_time IS NULL THEN 'new' ELSE 'timestamp' END,
            subscription_timestamp = coalesce(v_from, clock_timestamp()),
            start_snapshot = CASE WHEN p_time IS NULL THEN pg_current_snapshot() END,
            start_xid = CASE WHEN p_time IS NULL THEN pg_current_xact_id() END
        WHERE g.queue_name = p_queue_name AND g.consumer_group = p_consumer_group;
        v_has_start := FOUND;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(p_consumer_group, hashtextextended(v_queue_id::text, 0)));
    IF v_named_id IS NOT NULL AND v_has_start THEN
        PERFORM queen.create_cursors(ARRAY[v_named_id], ARRAY[p_consumer_group], true);
    END IF;
    -- Lock first, then look: what a pop or an ack was about to commit is seen by the next statement.
    v_partition_ids := ARRAY(
        SELECT pc.partition_id FROM queen.partition_consumers pc
        WHERE pc.queue_id = v_queue_id AND pc.consumer_group = p_consumer_group
          AND (p_partition_name IS NULL OR pc.partition_id = v_named_id)
        ORDER BY pc.partition_id
        FOR UPDATE);
    PERFORM pg_notify(
        'queen_wake', json_build_object('from', '', 'queues', json_build_array(p_queue_name))::text);
    RETURN QUERY
    UPDATE queen.partition_consumers pc
    SET cursor_seq = CASE WHEN CASE WHEN v_keeps THEN queen.note_passed(
                                   v_queue_id, pc.partition_id, pc.consumer_group, pc.cursor_seq, pc.cursor_seq,
                                   t.seq, NULL, clock_timestamp(), 'seek', 0, 0)
                               ELSE true END THEN t.seq END,
        lease_id = NULL, lease_expires_at = NULL, retry_count = 0, retry_seq = NULL,
        retry_at = NULL, expiry_count = 0, solo_until_seq = NULL, blocked_seq = NULL
    FROM (
        SELECT l.partition_id,
               CASE WHEN p_time IS NULL THEN l.last_seq
                    ELSE queen.seq_before(l.partition_id, v_from) END AS seq
        FROM unnest(v_partition_ids) AS u (id)
        JOIN queen.partition_lookup l ON l.partition_id = u.id
    ) t
    WHERE pc.partition_id = t.partition_id AND pc.consumer_group = p_consumer_group
    RETURNING pc.partition_id, (
        SELECT m.created_at FROM queen.messages m WHERE m.partition_id = t.partition_id AND m.seq = t.seq);
    IF p_partition_name IS NULL AND v_has_start THEN
        RETURN QUERY
        SELECT l.partition_id, NULL::timestamptz
        FROM queen.queue_start(v_queue_id, p_queue_name, p_consumer_group) s
        JOIN queen.partition_lookup l
            ON l.queue_id = v_queue_id AND (s.start_time IS NOT NULL OR l.partition_id = ANY (s.own_ids))
        WHERE NOT EXISTS (
            SELECT FROM queen.partition_consumers c
            WHERE c.partition_id = l.partition_id AND c.consumer_group = p_consumer_group);
    END IF;
END
$$;
