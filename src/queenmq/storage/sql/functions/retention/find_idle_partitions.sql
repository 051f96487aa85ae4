-- Return the partitions of a queue that can be removed because they are empty and idle.
--
-- Arguments: the queue's row; either the partition after which to look, in id order, and how many to look at, or
-- p_among, the partitions to look at; how many to find at most.
-- Result: ids, those found; next_after, where to go on, NULL after the last partition.
-- Idle: neither made, pushed to, popped from nor acked in for partitionIdleSeconds, and no stream has committed a
-- cycle. A partition stays while anything still refers to it: a message, an operation, a dead letter, a trace, state
-- of a stream, a live lease, or steps of its groups in the history of acks, which is kept by time. All partitions of
-- a queue stay while a group has a start in the future: only their cursors say that the group reads them already.
-- To be called once without locks and again under them. Takes none.
CREATE OR REPLACE FUNCTION queen.find_idle_partitions(
    p_queue queen.queues,
    p_after uuid,
    p_among uuid[],
    p_partitions_max integer,
    p_found_max integer,
    OUT ids uuid[],
    OUT next_after uuid
)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now CONSTANT timestamptz := clock_timestamp();
    v_idle_since CONSTANT timestamptz := v_now - make_interval(secs => p_queue.partition_idle_seconds);
    v_before timestamptz;
BEGIN
    ids := '{}';
    IF coalesce(p_queue.partition_idle_seconds, 0) = 0 OR EXISTS (
        SELECT FROM queen.consumer_groups_metadata g
        WHERE g.queue_name = p_queue.name AND g.subscription_mode = 'timestamp'
          AND g.subscription_timestamp > v_now) THEN
        RETURN;
    END IF;
    -- Older steps of the history are swept already.
    v_before := least(v_idle_since, (SELECT min(h.passed_at) FROM queen.ack_history h
                                     WHERE h.queue_id = p_queue.id));
    IF p_among IS NULL THEN
        SELECT array_agg(l.partition_id) FILTER (
                   WHERE l.last_seq < l.first_seq AND coalesce(l.last_message_created_at < v_before, true)),
               CASE WHEN count(*) = p_partitions_max THEN (array_agg(l.partition_id ORDER BY l.partition_id DESC))[1] END
        INTO p_among, next_after
        FROM (SELECT x.partition_id, x.first_seq, x.last_seq, x.last_message_created_at
              FROM queen.partition_lookup x
              WHERE x.queue_id = p_queue.id AND x.partition_id > p_after
              ORDER BY x.partition_id LIMIT p_partitions_max) l;
    END IF;

    SELECT coalesce(array_agg(f.id ORDER BY f.id), '{}') INTO ids
    FROM (
        SELECT l.partition_id AS id
        FROM queen.partition_lookup l
        JOIN queen.partitions p ON p.id = l.partition_id
        WHERE l.partition_id = ANY (p_among) AND l.last_seq < l.first_seq AND p.created_at < v_before
          AND coalesce(l.last_message_created_at < v_before, true)
          AND NOT EXISTS (
              SELECT FROM queen.partition_consumers c
              WHERE c.partition_id = l.partition_id
                AND (greatest(c.created_at, c.last_served_at, c.last_consumed_at) >= v_before
                     OR c.lease_expires_at > v_now))
          AND NOT EXISTS (SELECT FROM queen.messages m WHERE m.partition_id = l.partition_id)
          AND NOT EXISTS (SELECT FROM queen.operation_queue o WHERE o.partition_id = l.partition_id)
          AND NOT EXISTS (SELECT FROM queen.dead_letter_queue d WHERE d.partition_id = l.partition_id)
          AND NOT EXISTS (SELECT FROM queen.message_traces t WHERE t.partition_id = l.partition_id)
          AND NOT EXISTS (
              SELECT FROM queen_streams.partitions t
              WHERE t.partition_id = l.partition_id AND (t.state_keys > 0 OR t.last_cycle_at >= v_before))
        ORDER BY l.partition_id
        LIMIT p_found_max
    ) f;
    IF cardinality(ids) = p_found_max THEN
        next_after := ids[p_found_max];
    END IF;
END
$$;
