-- Undo the acks of pops with autoAck whose messages could not be delivered.
--
-- Arguments: parallel arrays of partitions and the ranges that were granted there, and the group.
-- Result: the partitions where that worked. Elsewhere the group has moved on since, and nothing is changed. The
-- messages are deliverable again at once, on every broker. In the history it is a seek.
-- Tables: queues (update), partition_consumers (update), those of note_passed.
-- Locks: the queues in id order, then cursor rows in partition id order.
CREATE OR REPLACE FUNCTION queen.return_taken(
    p_partition_ids uuid[],
    p_consumer_group text,
    p_after_seqs bigint[],
    p_end_seqs bigint[]
)
RETURNS uuid[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_queue_ids uuid[];
    v_returned uuid[];
BEGIN
    v_queue_ids := ARRAY(
        SELECT q.id FROM queen.queues q
        WHERE q.id IN (SELECT p.queue_id FROM queen.partitions p WHERE p.id = ANY (p_partition_ids))
        ORDER BY q.id FOR NO KEY UPDATE);
    -- Look-ups search the whole queue again, because its old messages are available again.
    UPDATE queen.queues SET changed_xid = pg_current_xact_id() WHERE id = ANY (v_queue_ids);
    PERFORM FROM queen.partition_consumers pc
    WHERE pc.partition_id = ANY (p_partition_ids) AND pc.consumer_group = p_consumer_group
    ORDER BY pc.partition_id FOR UPDATE;
    WITH returned AS (
        UPDATE queen.partition_consumers pc
        SET cursor_seq = CASE WHEN CASE WHEN q.ack_history THEN queen.note_passed(
                                       q.id, pc.partition_id, pc.consumer_group, pc.cursor_seq, pc.cursor_seq,
                                       g.after_seq, NULL, clock_timestamp(), 'seek', 0, 0)
                                   ELSE true END THEN g.after_seq END,
            total_consumed = greatest(0, pc.total_consumed - (g.end_seq - g.after_seq))
        FROM unnest(p_partition_ids, p_after_seqs, p_end_seqs) AS g (partition_id, after_seq, end_seq),
             queen.queues q
        WHERE pc.partition_id = g.partition_id AND pc.consumer_group = p_consumer_group
          AND pc.cursor_seq = g.end_seq AND pc.lease_expires_at IS NULL AND q.id = pc.queue_id
        RETURNING pc.partition_id
    )
    SELECT coalesce(array_agg(r.partition_id), '{}') INTO v_returned FROM returned r;
    PERFORM pg_notify('queen_wake', json_build_object('from', '', 'queues', json_build_array(q.name))::text)
    FROM queen.queues q WHERE q.id = ANY (v_queue_ids);
    RETURN v_returned;
END
$$;
