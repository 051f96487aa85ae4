-- Remove messages from the front of a partition by the rules of its queue, unless a session is busy there.
--
-- Arguments: those of retention_bounds; p_messages_max, how many messages at most.
-- Result: removed messages by rule, as in apply_retention; cost, what that counts for, in messages: a partition
-- whose rows were locked counts as 20 of them, because they stay locked to the end of the transaction; has_more:
-- p_messages_max was reached.
-- first_seq moves to the first message that is left, or past the end. Cursors stay where they are: a pop goes on
-- at first_seq. What they remember of removed messages (retries, leases that ran out, a poison message that
-- blocks) is forgotten. Dead letters are copies and stay.
-- Tables: partition_lookup, partition_consumers (row locks, update), messages, removed_messages (delete);
-- archive_marks (read).
-- Locks: the lookup row (FOR NO KEY UPDATE), then all cursor rows; if any is locked the partition is left alone.
-- Never waits for one. A group's very first cursor here, if it is being made just now, is not seen; what its
-- first pop gets may go.
-- Errors: 55P03 another session holds a message, if the caller has set a lock_timeout.
CREATE OR REPLACE FUNCTION queen.trim_partition(
    p_queue queen.queues,
    p_partition_id uuid,
    p_first_seq bigint,
    p_groups text[],
    p_spark_xid xid8,
    p_messages_max integer,
    OUT retention_messages bigint,
    OUT completed_messages bigint,
    OUT evicted_messages bigint,
    OUT cost bigint,
    OUT has_more boolean
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_bounds record;
    v_first_seq bigint;
    v_locked bigint;
    v_range bigint;
BEGIN
    retention_messages := 0;
    completed_messages := 0;
    evicted_messages := 0;
    cost := 0;
    has_more := false;
    SELECT * INTO v_bounds FROM queen.retention_bounds(
        p_queue, p_partition_id, p_first_seq, p_groups, p_spark_xid, p_messages_max);
    IF v_bounds.end_seq < p_first_seq THEN
        RETURN;
    END IF;

    cost := 20;
    SELECT l.first_seq INTO v_first_seq FROM queen.partition_lookup l
    WHERE l.partition_id = p_partition_id FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT count(*) INTO v_locked FROM (
        SELECT FROM queen.partition_consumers c WHERE c.partition_id = p_partition_id
        ORDER BY c.consumer_group FOR UPDATE SKIP LOCKED) k;
    IF v_locked < (SELECT count(*) FROM queen.partition_consumers c WHERE c.partition_id = p_partition_id) THEN
        RETURN;
    END IF;
    -- Lock first, then look again; a group may have come as well.
    SELECT * INTO v_bounds FROM queen.retention_bounds(
        p_queue, p_partition_id, v_first_seq,
        ARRAY(SELECT g.consumer_group FROM queen.queue_groups(p_queue.id, p_queue.name) g),
        p_spark_xid, p_messages_max);
    IF v_bounds.end_seq < v_first_seq THEN
        RETURN;
    END IF;

    v_range := v_bounds.end_seq - v_first_seq + 1;
    WITH gone AS (
        DELETE FROM queen.messages m
        WHERE m.partition_id = p_partition_id AND m.seq >= v_first_seq AND m.seq <= v_bounds.end_seq
        RETURNING m.seq
    )
    SELECT count(*) FILTER (WHERE g.seq <= v_bounds.completed_seq),
           count(*) FILTER (WHERE g.seq > v_bounds.completed_seq AND g.seq <= v_bounds.age_seq),
           count(*) FILTER (WHERE g.seq > v_bounds.completed_seq AND g.seq > v_bounds.age_seq)
    INTO completed_messages, retention_messages, evicted_messages
    FROM gone g;
    UPDATE queen.partition_lookup l
    SET first_seq = coalesce((
        SELECT m.seq FROM queen.messages m
        WHERE m.partition_id = p_partition_id AND m.seq > v_bounds.end_seq ORDER BY m.seq LIMIT 1),
        l.last_seq + 1)
    WHERE l.partition_id = p_partition_id
    RETURNING l.first_seq INTO v_first_seq;
    DELETE FROM queen.removed_messages r WHERE r.partition_id = p_partition_id AND r.seq < v_first_seq;
    UPDATE queen.partition_consumers c
    SET lease_id = CASE WHEN c.lease_end_seq <= v_bounds.end_seq THEN NULL ELSE c.lease_id END,
        lease_expires_at = CASE WHEN c.lease_end_seq <= v_bounds.end_seq THEN NULL ELSE c.lease_expires_at END,
        retry_count = CASE WHEN c.retry_seq <= v_bounds.end_seq THEN 0 ELSE c.retry_count END,
        retry_at = CASE WHEN c.retry_seq <= v_bounds.end_seq THEN NULL ELSE c.retry_at END,
        retry_seq = CASE WHEN c.retry_seq <= v_bounds.end_seq THEN NULL ELSE c.retry_seq END,
        expiry_count = 0,
        solo_until_seq = CASE WHEN c.solo_until_seq <= v_bounds.end_seq THEN NULL ELSE c.solo_until_seq END,
        blocked_seq = CASE WHEN c.blocked_seq <= v_bounds.end_seq THEN NULL ELSE c.blocked_seq END
    WHERE c.partition_id = p_partition_id AND c.cursor_seq < v_bounds.end_seq
      AND (c.lease_expires_at IS NOT NULL OR c.retry_seq IS NOT NULL OR c.expiry_count > 0
           OR c.solo_until_seq IS NOT NULL OR c.blocked_seq IS NOT NULL);

    cost := cost + v_range;
    has_more := v_range = p_messages_max;
END
$$;
