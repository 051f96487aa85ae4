-- Push one message inside the caller's own transaction: it becomes visible to consumers when, and only if,
-- that transaction commits.
--
--   BEGIN;
--   UPDATE accounts SET ...;
--   SELECT queen.push('orders', '{"id": 1}', partition => 'customer-42');
--   COMMIT;
--
-- The partition stays locked until the caller commits: other producers to it wait, so keep such
-- transactions short. Result: the message id; for a repeated transaction_id the id of the stored message;
-- NULL when operations wait in the partition (operation_queue) and the message was queued behind them.
-- Consumers are woken on commit.
-- It acts with the rights of its owner, so that a role needs EXECUTE on this function and nothing else. Its
-- search_path keeps a caller's own functions, operators and types out of it.
-- Errors: QN002 the queue is at its maxSize; QN003 too many operations wait in the partition; 22023 a name is
-- empty or too long.
CREATE OR REPLACE FUNCTION queen.push(
    queue text,
    payload json,
    partition text DEFAULT 'Default',
    transaction_id text DEFAULT NULL,
    trace_id uuid DEFAULT NULL
)
RETURNS uuid
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    -- As the brokers' own bound.
    c_queue_max CONSTANT integer := 10000;
    v_partition_id uuid;
    v_pushed record;
BEGIN
    IF queue IS NULL OR partition IS NULL OR EXISTS (
        SELECT FROM unnest(ARRAY[queue, partition, transaction_id]) AS n (name)
        WHERE length(n.name) NOT BETWEEN 1 AND 255 OR octet_length(n.name) > 765) THEN
        RAISE EXCEPTION 'queue, partition and transaction_id must have 1 to 255 characters, 765 bytes'
            USING ERRCODE = '22023';
    END IF;
    IF payload IS NULL THEN
        payload := 'null';
    END IF;
    SELECT e.partition_id INTO v_partition_id
    FROM queen.ensure_partitions(ARRAY[queue], ARRAY[partition], NULL) e;
    SELECT * INTO v_pushed FROM queen.push_messages(
        ARRAY[v_partition_id], ARRAY[1], ARRAY[transaction_id], ARRAY[trace_id], ARRAY[payload::text],
        NULL, NULL, ARRAY[1], NULL, c_queue_max, false, false, NULL);
    IF v_pushed.outcomes = 'f' THEN
        RAISE EXCEPTION 'queue % is full', queue USING ERRCODE = 'QN002';
    END IF;
    -- No broker is the sender, so all of them listen.
    PERFORM pg_notify('queen_wake', json_build_object('from', '', 'queues', json_build_array(queue))::text);
    RETURN CASE WHEN v_pushed.outcomes <> 'b' THEN v_pushed.message_ids[1]::uuid END;
END
$$;
