-- Copy one message to the dead letters of a consumer group. A second time changes nothing.
-- Result: always true, so that it can stand in a list of results.
-- Tables: dead_letter_queue (insert), messages (read).
CREATE OR REPLACE FUNCTION queen.dead_letter(
    p_partition_id uuid,
    p_consumer_group text,
    p_seq bigint,
    p_retry_count integer,
    p_error text
)
RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO queen.dead_letter_queue
        (queue_id, partition_id, consumer_group, message_id, seq, transaction_id, trace_id,
         producer_sub, is_encrypted, payload, error_message, retry_count, created_at, failed_at)
    SELECT m.queue_id, m.partition_id, p_consumer_group, m.id, m.seq,
           coalesce(m.transaction_id, m.id::text), m.trace_id, m.producer_sub, m.is_encrypted, m.payload,
           p_error, p_retry_count, m.created_at, clock_timestamp()
    FROM queen.messages m
    WHERE m.partition_id = p_partition_id AND m.seq = p_seq
    ON CONFLICT (partition_id, consumer_group, seq) DO NOTHING;
    RETURN true;
END
$$;
