-- Move one message to the dead letters: it leaves its partition, and becomes a dead letter of every group of the
-- queue that has not passed it; of the default group in a queue without groups.
--
-- A group that holds it under a lease gets "Message not found" for its ack (see remove_message). Its traces stay.
-- Consumers are woken on commit.
-- Result: the queue's name and the groups that got a dead letter; no name: there is no such message; no groups:
-- all have passed it, and nothing was changed.
-- Tables: those of remove_message and dead_letter.
-- Locks: the lookup row FOR NO KEY UPDATE, cursor rows of the partition in group order, new dead letters.
-- Errors: 55P03 a row stayed locked for p_lock_timeout_ms.
CREATE OR REPLACE FUNCTION queen.bury_message(
    p_partition_id uuid,
    p_transaction_id text,
    p_error text,
    p_lock_timeout_ms integer,
    OUT queue_name text,
    OUT consumer_groups text[]
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_seq bigint;
BEGIN
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    PERFORM FROM queen.partition_lookup WHERE partition_id = p_partition_id FOR NO KEY UPDATE;
    PERFORM FROM queen.partition_consumers WHERE partition_id = p_partition_id
    ORDER BY consumer_group FOR UPDATE;
    -- Lock first, then look.
    v_seq := queen.find_message(p_partition_id, p_transaction_id);
    IF v_seq IS NULL THEN
        RETURN;
    END IF;
    SELECT q.name INTO queue_name
    FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id WHERE p.id = p_partition_id;
    SELECT coalesce(array_agg(g.consumer_group::text ORDER BY g.consumer_group), '{}') INTO consumer_groups
    FROM (
        SELECT m.consumer_group FROM queen.message_groups(ARRAY[p_partition_id], ARRAY[v_seq]) m
        WHERE NOT m.has_passed
        UNION ALL
        SELECT '__QUEUE_MODE__' WHERE NOT EXISTS (
            SELECT FROM queen.message_groups(ARRAY[p_partition_id], ARRAY[v_seq]))
    ) g;
    IF cardinality(consumer_groups) = 0 THEN
        RETURN;
    END IF;
    PERFORM queen.dead_letter(
        p_partition_id, g.name, v_seq,
        coalesce((SELECT pc.retry_count FROM queen.partition_consumers pc
                  WHERE pc.partition_id = p_partition_id AND pc.consumer_group = g.name
                    AND pc.retry_seq = v_seq), 0),
        p_error)
    FROM unnest(consumer_groups) WITH ORDINALITY AS g (name, n) ORDER BY g.n;
    PERFORM queen.remove_message(p_partition_id, v_seq);
    PERFORM pg_notify(
        'queen_wake', json_build_object('from', '', 'queues', json_build_array(queue_name))::text);
END
$$;
