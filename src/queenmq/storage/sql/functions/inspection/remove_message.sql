-- Take one message out of its partition, even if a group still wants it, so that nothing waits for it afterwards.
--
-- To be called with the partition's lookup row (FOR NO KEY UPDATE) and all its cursor rows locked.
-- Numbers are never reused. A cursor that stands before the gap steps over it. A lease over the message
-- ends at the last message that is left in it, or at once where none is; acks of the message are then answered
-- "Message not found". What waited for this message (a retry, a block by the poison rule) is over.
-- Dead letters and traces are left to the caller.
-- Tables: messages (delete), partition_consumers, partition_lookup (update), removed_messages (insert, delete);
-- ack_history (insert).
CREATE OR REPLACE FUNCTION queen.remove_message(p_partition_id uuid, p_seq bigint)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_first_seq bigint;
    v_last_seq bigint;
    v_is_noted boolean;
BEGIN
    DELETE FROM queen.messages WHERE partition_id = p_partition_id AND seq = p_seq;
    SELECT l.last_seq, coalesce(m.seq, l.last_seq + 1) INTO v_last_seq, v_first_seq
    FROM queen.partition_lookup l
    LEFT JOIN LATERAL (
        SELECT x.seq FROM queen.messages x
        WHERE x.partition_id = l.partition_id AND x.seq >= l.first_seq ORDER BY x.seq LIMIT 1
    ) m ON true
    WHERE l.partition_id = p_partition_id;
    UPDATE queen.partition_lookup SET first_seq = v_first_seq
    WHERE partition_id = p_partition_id AND first_seq < v_first_seq;
    IF p_seq > v_first_seq THEN
        INSERT INTO queen.removed_messages (partition_id, seq) VALUES (p_partition_id, p_seq)
        ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM queen.removed_messages WHERE partition_id = p_partition_id AND seq < v_first_seq;
    END IF;

    WITH seen AS (
        -- What is left in the lease, and where a cursor that waits for nothing else stands now.
        SELECT pc.consumer_group, pc.cursor_seq, pc.lease_end_seq, pc.retry_seq, kept.seq AS kept_seq,
               coalesce((SELECT m.seq FROM queen.messages m
                         WHERE m.partition_id = p_partition_id AND m.seq > pc.cursor_seq
                         ORDER BY m.seq LIMIT 1) - 1, v_last_seq) AS pass_seq
        FROM queen.partition_consumers pc
        LEFT JOIN LATERAL (
            SELECT m.seq FROM queen.messages m
            WHERE m.partition_id = p_partition_id AND m.seq > pc.cursor_seq AND m.seq <= pc.lease_end_seq
              AND pc.lease_expires_at IS NOT NULL
            ORDER BY m.seq DESC LIMIT 1
        ) kept ON true
        WHERE pc.partition_id = p_partition_id AND pc.cursor_seq < p_seq
    ), placed AS (
        SELECT s.consumer_group, s.cursor_seq, s.kept_seq IS NOT NULL AS is_leased,
               coalesce(s.kept_seq, s.lease_end_seq) AS lease_end_seq,
               CASE WHEN s.kept_seq IS NULL THEN s.pass_seq END AS pass_seq,
               coalesce(s.retry_seq = p_seq OR s.retry_seq <= s.pass_seq, false) AS is_retry_over
        FROM seen s
    ), moved AS (
        UPDATE queen.partition_consumers pc
        SET cursor_seq = greatest(pc.cursor_seq, d.pass_seq),
            lease_end_seq = d.lease_end_seq,
            lease_expires_at = CASE WHEN d.is_leased THEN pc.lease_expires_at END,
            retry_count = CASE WHEN d.is_retry_over THEN 0 ELSE pc.retry_count END,
            retry_at = CASE WHEN d.is_retry_over THEN NULL ELSE pc.retry_at END,
            retry_seq = CASE WHEN d.is_retry_over THEN NULL ELSE pc.retry_seq END,
            solo_until_seq = CASE WHEN pc.solo_until_seq > greatest(pc.cursor_seq, d.pass_seq)
                                  THEN pc.solo_until_seq END,
            expiry_count = CASE WHEN d.pass_seq > pc.cursor_seq THEN 0 ELSE pc.expiry_count END,
            blocked_seq = nullif(pc.blocked_seq, p_seq)
        FROM placed d
        WHERE pc.partition_id = p_partition_id AND pc.consumer_group = d.consumer_group
        RETURNING pc.queue_id, pc.consumer_group, d.cursor_seq AS old_seq, pc.cursor_seq
    )
    SELECT bool_and(queen.note_passed(v.queue_id, p_partition_id, v.consumer_group, v.old_seq, v.cursor_seq,
                                      v.cursor_seq, NULL, clock_timestamp(), 'removed', 0, 0)) INTO v_is_noted
    FROM moved v JOIN queen.queues q ON q.id = v.queue_id
    WHERE q.ack_history;
END
$$;
