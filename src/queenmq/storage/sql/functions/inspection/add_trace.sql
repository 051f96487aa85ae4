-- Record a trace of a message, even if it has become a dead letter and left its partition.
-- Result: the id of the trace; NULL when there is no such message.
-- Tables: messages, dead_letter_queue, partitions (read), message_traces, message_trace_names (insert).
-- Takes no locks.
CREATE OR REPLACE FUNCTION queen.add_trace(
    p_partition_id uuid,
    p_transaction_id text,
    p_consumer_group text,
    p_event_type text,
    p_data text,
    p_names text[]
)
RETURNS uuid
LANGUAGE plpgsql
AS $$
DECLARE
    v_seq bigint;
    v_trace queen.message_traces;
BEGIN
    v_seq := coalesce(
        queen.find_message(p_partition_id, p_transaction_id),
        (SELECT max(d.seq) FROM queen.dead_letter_queue d
         WHERE d.partition_id = p_partition_id AND d.transaction_id = p_transaction_id));
    INSERT INTO queen.message_traces
        (queue_id, partition_id, seq, transaction_id, consumer_group, event_type, data)
    SELECT p.queue_id, p.id, v_seq, p_transaction_id, p_consumer_group, p_event_type, p_data::json
    FROM queen.partitions p WHERE p.id = p_partition_id AND v_seq IS NOT NULL
    RETURNING * INTO v_trace;
    INSERT INTO queen.message_trace_names (trace_id, trace_name, partition_id, seq, created_at)
    SELECT DISTINCT v_trace.id, n.name, v_trace.partition_id, v_trace.seq, v_trace.created_at
    FROM unnest(p_names) AS n (name) WHERE v_trace.id IS NOT NULL;
    RETURN v_trace.id;
END
$$;
