-- Remove a queue with its partitions, messages, waiting operations, cursors, dead letters, traces, state of
-- streams and remembered starts.
-- Result: whether it existed. If it had messages, queen.deleted_queues keeps its name for three months.
-- Locks: the queue's row first, so that no session adds a partition; then metadata rows in key order; those of
-- lock_pairs; its operations; then the lookup rows in partition id order, so that a push in flight is stored and
-- removed, and a later one finds the partition gone; then the cursor rows.
CREATE OR REPLACE FUNCTION queen.delete_queue(p_name text)
RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
    v_queue_id uuid;
    v_partition_ids uuid[];
BEGIN
    SELECT id INTO v_queue_id FROM queen.queues WHERE name = p_name FOR UPDATE;
    PERFORM FROM queen.consumer_groups_metadata WHERE queue_name = p_name
    ORDER BY consumer_group, partition_name FOR UPDATE;
    DELETE FROM queen.consumer_groups_metadata WHERE queue_name = p_name;
    IF v_queue_id IS NULL THEN
        RETURN false;
    END IF;
    v_partition_ids := ARRAY(SELECT id FROM queen.partitions WHERE queue_id = v_queue_id);
    PERFORM queen.lock_pairs(v_partition_ids);
    -- Operations first: their runner locks them before the lookup rows.
    PERFORM FROM queen.operation_queue WHERE partition_id = ANY (v_partition_ids) ORDER BY id FOR UPDATE;
    PERFORM FROM queen.partition_lookup WHERE queue_id = v_queue_id ORDER BY partition_id FOR UPDATE;
    PERFORM FROM queen.partition_consumers WHERE queue_id = v_queue_id
    ORDER BY partition_id, consumer_group FOR UPDATE;
    DELETE FROM queen.partition_consumers WHERE queue_id = v_queue_id;
    DELETE FROM queen.dead_letter_queue WHERE queue_id = v_queue_id;
    DELETE FROM queen.message_traces WHERE partition_id = ANY (v_partition_ids);
    PERFORM queen.forget_partitions(v_partition_ids);
    DELETE FROM queen.removed_messages WHERE partition_id = ANY (v_partition_ids);
    INSERT INTO queen.deleted_queues (id, name, namespace, task, last_xid)
    SELECT q.id, q.name, q.namespace, q.task, m.xid
    FROM queen.queues q
    CROSS JOIN LATERAL (SELECT m.xid FROM queen.messages m WHERE m.queue_id = q.id
                        ORDER BY m.xid DESC LIMIT 1) m
    WHERE q.id = v_queue_id;
    DELETE FROM queen.deleted_queues WHERE deleted_at < now() - interval '90 days';
    -- One that was queued since the first look and is being run waits for us, and then finds its partition
    -- gone (run_operations).
    DELETE FROM queen.operation_queue WHERE id IN (
        SELECT id FROM queen.operation_queue
        WHERE partition_id = ANY (v_partition_ids) FOR UPDATE SKIP LOCKED);
    DELETE FROM queen.messages WHERE partition_id = ANY (v_partition_ids);
    DELETE FROM queen.partition_lookup WHERE queue_id = v_queue_id;
    DELETE FROM queen.partitions WHERE queue_id = v_queue_id;
    DELETE FROM queen.queues WHERE id = v_queue_id;
    RETURN true;
END
$$;
