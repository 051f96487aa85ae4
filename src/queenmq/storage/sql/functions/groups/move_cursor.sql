-- Move a consumer group in one partition: the message with p_next_seq is the next that the group gets.
--
-- A number below the first message that is kept stands for that one, a number above the newest for the end.
-- Only where the group has a cursor or a remembered start. The lease ends, so that acks under it are refused.
-- Retries and the poison-message rule start over. Brokers are notified on commit.
-- Result: the number that is next now, NULL where the group was not moved.
-- Tables: queues, partition_consumers (update), partition_consumers, ack_history (insert); partitions,
-- partition_lookup, consumer_groups_metadata (read).
-- Locks: as seek_group for one partition.
CREATE OR REPLACE FUNCTION queen.move_cursor(
    p_consumer_group text,
    p_queue_name text,
    p_partition_name text,
    p_next_seq bigint
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_queue_id uuid;
    v_partition_id uuid;
    v_keeps boolean;
    v_old_seq bigint;
    v_new_seq bigint;
BEGIN
    UPDATE queen.queues SET changed_xid = pg_current_xact_id() WHERE name = p_queue_name
    RETURNING id, ack_history INTO v_queue_id, v_keeps;
    SELECT p.id INTO v_partition_id FROM queen.partitions p
    WHERE p.queue_id = v_queue_id AND p.name = p_partition_name;
    IF v_partition_id IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(p_consumer_group, hashtextextended(v_queue_id::text, 0)));
    IF EXISTS (
        SELECT FROM queen.consumer_groups_metadata g
        WHERE g.queue_name = p_queue_name AND g.consumer_group = p_consumer_group
          AND g.partition_name IN ('', p_partition_name)) THEN
        PERFORM queen.create_cursors(ARRAY[v_partition_id], ARRAY[p_consumer_group], true);
    END IF;
    SELECT pc.cursor_seq INTO v_old_seq FROM queen.partition_consumers pc
    WHERE pc.partition_id = v_partition_id AND pc.consumer_group = p_consumer_group
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- Lock first, then look: what a pop or an ack was about to commit is seen by this statement.
    SELECT greatest(l.first_seq - 1, least(l.last_seq, p_next_seq - 1)) INTO v_new_seq
    FROM queen.partition_lookup l WHERE l.partition_id = v_partition_id;
    IF v_keeps THEN
        PERFORM queen.note_passed(
            v_queue_id, v_partition_id, p_consumer_group, v_old_seq, v_old_seq, v_new_seq, NULL,
            clock_timestamp(), 'seek', 0, 0);
    END IF;
    UPDATE queen.partition_consumers pc
    SET cursor_seq = v_new_seq, lease_id = NULL, lease_expires_at = NULL, retry_count = 0, retry_seq = NULL,
        retry_at = NULL, expiry_count = 0, solo_until_seq = NULL, blocked_seq = NULL
    WHERE pc.partition_id = v_partition_id AND pc.consumer_group = p_consumer_group;
    PERFORM pg_notify(
        'queen_wake', json_build_object('from', '', 'queues', json_build_array(p_queue_name))::text);
    RETURN v_new_seq + 1;
END
$$;
