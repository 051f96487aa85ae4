-- Decide about a message whose lease ran out while it was leased alone, after its batch had already run
-- out retryLimit times: its consumer dies on it.
--
-- The queue's on_poison says what happens: dlq (dead letter, go on), skip (go on), block (the partition
-- stops for this group until an operator acks, seeks or changes the setting).
-- Does nothing unless that is still the state of the row.
-- Tables: partition_consumers (row lock, update), dead_letter_queue, ack_history (insert), messages, queues
-- (read).
CREATE OR REPLACE FUNCTION queen.settle_poison(p_partition_id uuid, p_consumer_group text)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_row queen.partition_consumers;
    v_on_poison text;
    v_expiries integer;
    v_keeps boolean;
    v_seq bigint;
BEGIN
    SELECT * INTO v_row FROM queen.partition_consumers
    WHERE partition_id = p_partition_id AND consumer_group = p_consumer_group
    FOR UPDATE;
    IF v_row.solo_until_seq IS NULL OR v_row.lease_expires_at IS NULL
       OR v_row.lease_expires_at > clock_timestamp() THEN
        RETURN;
    END IF;
    PERFORM nextval('queen.expired_leases');
    -- Those of its batch and its own; expiry_count starts over whenever a message of the batch passes.
    SELECT on_poison, greatest(retry_limit, 1) + 1, ack_history INTO v_on_poison, v_expiries, v_keeps
    FROM queen.queues WHERE id = v_row.queue_id;
    v_seq := v_row.lease_end_seq;
    IF v_on_poison = 'block' THEN
        UPDATE queen.partition_consumers
        SET lease_id = NULL, lease_expires_at = NULL, blocked_seq = v_seq
        WHERE partition_id = p_partition_id AND consumer_group = p_consumer_group;
        RETURN;
    END IF;
    IF v_on_poison = 'dlq' THEN
        PERFORM queen.dead_letter(
            p_partition_id, p_consumer_group, v_seq, v_expiries,
            format('Lease expired %s times without an ack: the consumer may die on this message',
                   v_expiries));
    END IF;
    IF v_keeps THEN
        PERFORM queen.note_passed(
            v_row.queue_id, p_partition_id, p_consumer_group, v_row.cursor_seq, v_row.cursor_seq, v_seq,
            v_row.lease_acquired_at, clock_timestamp(), 'poison', (v_on_poison = 'dlq')::integer, v_expiries);
    END IF;
    UPDATE queen.partition_consumers
    SET lease_id = NULL, lease_expires_at = NULL, cursor_seq = v_seq, expiry_count = 0,
        retry_count = 0, retry_seq = NULL,
        solo_until_seq = nullif(greatest(solo_until_seq, v_seq), v_seq),
        last_consumed_at = clock_timestamp(), total_consumed = total_consumed + 1
    WHERE partition_id = p_partition_id AND consumer_group = p_consumer_group;
END
$$;
