-- Remove a partition with its messages, waiting operations, cursors, leases, dead letters, traces, history,
-- state of streams and remembered starts. The next push to it creates it again, with another id.
-- Result: whether it existed.
-- Tables: those of delete_queue, and ack_history.
-- Locks: as delete_queue. The queue's row first, so that no session gets an id of this partition from now on
-- (ensure_partitions); that blocks sessions that create partitions of the queue, so clear the partition before.
CREATE OR REPLACE FUNCTION queen.delete_partition(p_queue_name text, p_partition_name text)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_queue_id uuid;
    v_id uuid;
BEGIN
    SELECT q.id INTO v_queue_id FROM queen.queues q WHERE q.name = p_queue_name FOR UPDATE;
    SELECT p.id INTO v_id FROM queen.partitions p WHERE p.queue_id = v_queue_id AND p.name = p_partition_name;
    IF v_id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM FROM queen.consumer_groups_metadata
    WHERE queue_name = p_queue_name AND partition_name = p_partition_name
    ORDER BY consumer_group FOR UPDATE;
    DELETE FROM queen.consumer_groups_metadata
    WHERE queue_name = p_queue_name AND partition_name = p_partition_name;
    PERFORM queen.lock_pairs(ARRAY[v_id]);
    -- Operations first: their runner locks them before the lookup rows.
    PERFORM FROM queen.operation_queue WHERE partition_id = v_id ORDER BY id FOR UPDATE;
    PERFORM FROM queen.partition_lookup WHERE partition_id = v_id FOR UPDATE;
    PERFORM FROM queen.partition_consumers WHERE partition_id = v_id ORDER BY consumer_group FOR UPDATE;
    DELETE FROM queen.partition_consumers WHERE partition_id = v_id;
    DELETE FROM queen.dead_letter_queue WHERE partition_id = v_id;
    DELETE FROM queen.message_traces WHERE partition_id = v_id;
    PERFORM queen.forget_partitions(ARRAY[v_id]);
    DELETE FROM queen.removed_messages WHERE partition_id = v_id;
    DELETE FROM queen.ack_history WHERE queue_id = v_queue_id AND partition_id = v_id;
    -- One that was queued since the first look and is being run waits for us, and then finds its partition
    -- gone (run_operations).
    DELETE FROM queen.operation_queue WHERE id IN (
        SELECT id FROM queen.operation_queue WHERE partition_id = v_id FOR UPDATE SKIP LOCKED);
    DELETE FROM queen.messages WHERE partition_id = v_id;
    DELETE FROM queen.partition_lookup WHERE partition_id = v_id;
    DELETE FROM queen.partitions WHERE id = v_id;
    RETURN true;
END
$$;
