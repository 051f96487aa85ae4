-- Drop all messages of a queue, or of one partition of it (p_partition_name NULL: all), with their dead
-- letters, traces and what waits to be stored. Sequence numbers go on where they were, so cursors stay valid;
-- leases end.
-- Result: the number of messages removed; NULL when the queue or partition does not exist.
-- Locks: operations in id order, lookup rows in partition id order, then cursor rows in (partition id, group)
-- order.
CREATE OR REPLACE FUNCTION queen.clear_queue(p_queue_name text, p_partition_name text)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_partition_ids uuid[];
    v_removed bigint;
BEGIN
    v_partition_ids := ARRAY(
        SELECT p.id FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id
        WHERE q.name = p_queue_name AND (p_partition_name IS NULL OR p.name = p_partition_name));
    IF cardinality(v_partition_ids) = 0 THEN
        RETURN NULL;
    END IF;
    PERFORM FROM queen.operation_queue WHERE partition_id = ANY (v_partition_ids) ORDER BY id FOR UPDATE;
    PERFORM FROM queen.partition_lookup WHERE partition_id = ANY (v_partition_ids)
    ORDER BY partition_id FOR NO KEY UPDATE;
    PERFORM FROM queen.partition_consumers WHERE partition_id = ANY (v_partition_ids)
    ORDER BY partition_id, consumer_group FOR UPDATE;
    DELETE FROM queen.messages WHERE partition_id = ANY (v_partition_ids);
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    -- One that was queued since the first look and is being run waits for us; it comes after the clearing.
    DELETE FROM queen.operation_queue WHERE id IN (
        SELECT id FROM queen.operation_queue
        WHERE partition_id = ANY (v_partition_ids) AND is_blocking FOR UPDATE SKIP LOCKED);
    DELETE FROM queen.dead_letter_queue WHERE partition_id = ANY (v_partition_ids);
    DELETE FROM queen.message_traces WHERE partition_id = ANY (v_partition_ids);
    DELETE FROM queen.removed_messages WHERE partition_id = ANY (v_partition_ids);
    PERFORM queen.note_passed(pc.queue_id, pc.partition_id, pc.consumer_group, pc.cursor_seq, l.last_seq, l.last_seq,
                              NULL, clock_timestamp(), 'removed', 0, 0)
    FROM queen.partition_consumers pc
    JOIN queen.partition_lookup l ON l.partition_id = pc.partition_id
    JOIN queen.queues q ON q.id = pc.queue_id
    WHERE pc.partition_id = ANY (v_partition_ids) AND q.ack_history;
    UPDATE queen.partition_lookup SET first_seq = last_seq + 1 WHERE partition_id = ANY (v_partition_ids);
    UPDATE queen.partition_consumers pc
    SET cursor_seq = greatest(pc.cursor_seq, l.last_seq), lease_id = NULL, lease_expires_at = NULL,
        retry_count = 0, retry_seq = NULL, retry_at = NULL, expiry_count = 0, solo_until_seq = NULL, blocked_seq = NULL
    FROM queen.partition_lookup l
    WHERE l.partition_id = pc.partition_id AND pc.partition_id = ANY (v_partition_ids);
    RETURN v_removed;
END
$$;
