-- Return up to which message the rules of its queue allow removals from a partition.
--
-- Arguments: the queue's row; the partition and its first number; p_groups, all groups of the queue; p_spark_xid,
-- the transaction below which every Spark stream with a consumer group has read (NULL: there is none);
-- p_messages_max, more than these are not of interest.
-- Result: completed_seq, up to which every group has passed for completedRetentionSeconds; age_seq, up to which
-- messages are older than retentionSeconds; end_seq, the last one that may go by any rule, those two and eviction,
-- below p_first_seq if none may. Eviction: what no group has consumed or leased for maxWaitTimeSeconds goes, and
-- what is before it, which is older still.
-- Whatever the rule, what a live lease covers stays, and so does what the archive lacks if it has to come first.
-- To be called once without locks, to see whether it is worth any, and again under them. Takes none.
CREATE OR REPLACE FUNCTION queen.retention_bounds(
    p_queue queen.queues,
    p_partition_id uuid,
    p_first_seq bigint,
    p_groups text[],
    p_spark_xid xid8,
    p_messages_max integer,
    OUT completed_seq bigint,
    OUT age_seq bigint,
    OUT end_seq bigint
)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_now CONSTANT timestamptz := clock_timestamp();
    v_most CONSTANT bigint := p_first_seq - 1 + p_messages_max;
    v_least_passed bigint;
    v_most_taken bigint;
    v_old bigint;
    v_evicted bigint := 0;
BEGIN
    completed_seq := 0;
    age_seq := 0;
    -- A group of the queue that has no cursor here yet has passed nothing but what its start leaves out.
    SELECT min(coalesce(c.cursor_seq, queen.start_seq(p_partition_id, g.name))),
           -- A group that only skipped what is before its start has not taken it.
           max(greatest(c.cursor_seq, CASE WHEN c.lease_expires_at > v_now THEN c.lease_end_seq END))
    INTO v_least_passed, v_most_taken
    FROM unnest(p_groups) AS g (name)
    LEFT JOIN queen.partition_consumers c ON c.partition_id = p_partition_id AND c.consumer_group = g.name;
    IF p_queue.retention_enabled AND p_queue.retention_seconds > 0 THEN
        age_seq := queen.seq_before(p_partition_id, v_now - make_interval(secs => p_queue.retention_seconds));
    END IF;
    IF p_queue.retention_enabled AND p_queue.completed_retention_seconds > 0 THEN
        -- Without any group nothing is consumed, unless Spark alone reads the queue.
        completed_seq := coalesce(v_least_passed, CASE WHEN p_spark_xid IS NULL THEN 0 ELSE v_most END);
        completed_seq := least(completed_seq, v_most, queen.seq_before(
            p_partition_id, v_now - make_interval(secs => p_queue.completed_retention_seconds)));
        IF p_spark_xid IS NOT NULL THEN
            SELECT coalesce(min(m.seq) - 1, completed_seq) INTO completed_seq
            FROM queen.messages m
            WHERE m.partition_id = p_partition_id AND m.seq >= p_first_seq AND m.seq <= completed_seq
              AND m.xid >= p_spark_xid;
        END IF;
    END IF;
    IF p_queue.max_wait_time_seconds > 0 THEN
        v_old := queen.seq_before(
            p_partition_id, v_now - make_interval(secs => p_queue.max_wait_time_seconds));
        v_evicted := CASE WHEN v_old > coalesce(v_most_taken, 0) THEN v_old ELSE 0 END;
    END IF;
    end_seq := least(greatest(completed_seq, age_seq, v_evicted), v_most, (
        SELECT min(c.cursor_seq) FROM queen.partition_consumers c
        WHERE c.partition_id = p_partition_id AND c.lease_expires_at > v_now));
    IF p_queue.archive_before_delete THEN
        end_seq := least(end_seq, coalesce((
            SELECT a.archived_seq FROM queen.archive_marks a WHERE a.partition_id = p_partition_id), 0));
    END IF;
END
$$;
