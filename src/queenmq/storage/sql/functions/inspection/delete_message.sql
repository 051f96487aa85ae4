-- Delete one message with its dead letters and traces.
--
-- Groups that have not passed it never get it; one that holds it under a lease gets "Message not found" for its
-- ack (see remove_message). Its transaction id may be pushed again. Consumers are woken on commit, since a
-- partition that waited for this message may have others.
-- Result: the queue's name; NULL when there is neither such a message nor a dead letter of it.
-- Tables: those of remove_message; dead_letter_queue, message_traces (delete).
-- Locks: the lookup row FOR NO KEY UPDATE, cursor rows of the partition in group order, its dead letters and
-- traces.
-- Errors: 55P03 a row stayed locked for p_lock_timeout_ms.
CREATE OR REPLACE FUNCTION queen.delete_message(
    p_partition_id uuid,
    p_transaction_id text,
    p_lock_timeout_ms integer
)
RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    v_seq bigint;
    v_queue text;
    v_letters bigint;
BEGIN
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    PERFORM FROM queen.partition_lookup WHERE partition_id = p_partition_id FOR NO KEY UPDATE;
    PERFORM FROM queen.partition_consumers WHERE partition_id = p_partition_id
    ORDER BY consumer_group FOR UPDATE;
    -- Lock first, then look.
    v_seq := queen.find_message(p_partition_id, p_transaction_id);
    IF v_seq IS NOT NULL THEN
        PERFORM queen.remove_message(p_partition_id, v_seq);
    END IF;
    DELETE FROM queen.dead_letter_queue
    WHERE partition_id = p_partition_id AND transaction_id = p_transaction_id
      AND (v_seq IS NULL OR seq = v_seq);
    GET DIAGNOSTICS v_letters = ROW_COUNT;
    IF v_seq IS NULL AND v_letters = 0 THEN
        RETURN NULL;
    END IF;
    DELETE FROM queen.message_traces
    WHERE partition_id = p_partition_id AND transaction_id = p_transaction_id;
    SELECT q.name INTO v_queue
    FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id WHERE p.id = p_partition_id;
    PERFORM pg_notify(
        'queen_wake', json_build_object('from', '', 'queues', json_build_array(v_queue))::text);
    RETURN v_queue;
END
$$;
