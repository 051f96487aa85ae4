-- Record the move of a cursor, for queues with ackHistory. The caller moves it in the same transaction, with the
-- cursor's row locked.
--
-- Arguments: the cursor moves from p_cursor_seq to p_last_seq; up to p_removed_seq there was nothing to hand
-- out, and that part gets a row of its own. p_cause is that of the rest.
-- Result: always true, so that it can stand in a condition. A cursor that does not move forward leaves no row.
-- Tables: ack_history (insert). Takes no locks of others.
CREATE OR REPLACE FUNCTION queen.note_passed(
    p_queue_id uuid,
    p_partition_id uuid,
    p_consumer_group text,
    p_cursor_seq bigint,
    p_removed_seq bigint,
    p_last_seq bigint,
    p_delivered_at timestamptz,
    p_passed_at timestamptz,
    p_cause text,
    p_dead_lettered bigint,
    p_retries integer
)
RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO queen.ack_history
        (queue_id, passed_at, partition_id, consumer_group, first_seq, last_seq, delivered_at, cause, completed,
         dead_lettered, retries)
    SELECT p_queue_id, p_passed_at, p_partition_id, p_consumer_group, r.first_seq, r.last_seq, r.delivered_at,
           r.cause,
           CASE WHEN r.cause IN ('ack', 'autoAck') THEN r.last_seq - r.first_seq + 1 - r.dead_lettered ELSE 0 END,
           r.dead_lettered, r.retries
    FROM (VALUES
        (p_cursor_seq + 1, least(p_removed_seq, p_last_seq), NULL::timestamptz, 'removed', 0::bigint, 0),
        (greatest(p_cursor_seq, p_removed_seq) + 1, p_last_seq, p_delivered_at, p_cause,
         p_dead_lettered, p_retries)
    ) AS r (first_seq, last_seq, delivered_at, cause, dead_lettered, retries)
    WHERE r.first_seq <= r.last_seq;
    RETURN true;
END
$$;
