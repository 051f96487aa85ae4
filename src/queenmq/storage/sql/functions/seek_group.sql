-- Move a consumer group on a queue: its cursor in every partition, or in the one that is named, goes to the
-- last message that was created at or before p_time (none: to the very start), or with a NULL time to the
-- newest message.
--
-- Only partitions in which the group has a cursor. Leases end, so that acks under them are refused; retries and
-- the poison-message rule begin anew. Brokers are told on commit, and look the whole queue up again.
-- Result: a row per cursor with its partition and the creation time of the message it stands at (NULL: none).
-- Tables: queues, partition_consumers (row locks, update); ack_history (insert); partitions, partition_lookup,
-- messages (read).
-- Locks: the queue's row (FOR NO KEY UPDATE), then cursor rows in partition id order.
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
    v_queue_id uuid;
    v_partition_ids uuid[];
    v_keeps boolean;
BEGIN
    UPDATE queen.queues SET changed_xid = pg_current_xact_id() WHERE name = p_queue_name
    RETURNING id, ack_history INTO v_queue_id, v_keeps;
    -- Lock first, then look: what a pop or an ack was about to commit is seen by the next statement.
    v_partition_ids := ARRAY(
        SELECT pc.partition_id FROM queen.partition_consumers pc
        WHERE pc.queue_id = v_queue_id AND pc.consumer_group = p_consumer_group
          AND (p_partition_name IS NULL OR pc.partition_id = (
              SELECT p.id FROM queen.partitions p
              WHERE p.queue_id = v_queue_id AND p.name = p_partition_name))
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
               -- Times have microseconds; the first one after p_time is the next.
               CASE WHEN p_time IS NULL THEN l.last_seq
                    ELSE queen.seq_before(l.partition_id, p_time + interval '1 microsecond') END AS seq
        FROM unnest(v_partition_ids) AS u (id)
        JOIN queen.partition_lookup l ON l.partition_id = u.id
    ) t
    WHERE pc.partition_id = t.partition_id AND pc.consumer_group = p_consumer_group
    RETURNING pc.partition_id, (
        SELECT m.created_at FROM queen.messages m WHERE m.partition_id = t.partition_id AND m.seq = t.seq);
END
$$;
