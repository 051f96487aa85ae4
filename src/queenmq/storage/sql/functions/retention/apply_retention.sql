-- Remove messages from the front of some partitions of a queue by its rules, in one short transaction.
--
-- Arguments: the queue; p_after, the name of the partition after which to look (empty: from the first on);
-- p_partitions_max, how many to look at; p_messages_max, how many messages to remove at most, fewer from many
-- partitions (trim_partition).
-- Result: next_after, to be called with next; NULL when the queue is done, or another broker is at it. Removed
-- messages by the rule that counts for them: completed_messages if every group had passed them for long enough,
-- else retention_messages if they were too old, else evicted_messages.
-- Groups are those of queue_groups, and Spark streams that publish their position as a group.
-- Tables: retention_history (upsert); queues, partitions, partition_lookup, partition_consumers,
-- consumer_groups_metadata, spark_positions, messages (read); those of trim_partition.
-- Locks: an advisory lock of the queue, if it is free; those of trim_partition, partition by partition, in no
-- order since it never waits for one; at last a row of retention_history.
-- Errors: 55P03 another session holds a message.
CREATE OR REPLACE FUNCTION queen.apply_retention(
    p_queue_id uuid,
    p_after text,
    p_partitions_max integer,
    p_messages_max integer,
    OUT next_after text,
    OUT retention_messages bigint,
    OUT completed_messages bigint,
    OUT evicted_messages bigint
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET lock_timeout = '100ms'
AS $$
#variable_conflict use_variable
DECLARE
    v_queue queen.queues;
    v_groups text[];
    v_spark_xid xid8;
    v_least interval;
    v_place record;
    v_gone record;
    v_room bigint := p_messages_max;
    v_seen integer := 0;
    v_done text := p_after;
BEGIN
    retention_messages := 0;
    completed_messages := 0;
    evicted_messages := 0;
    -- Two at once would only wait for each other's row of the history.
    IF NOT pg_try_advisory_xact_lock(hashtextextended('retention ' || p_queue_id, 0)) THEN
        RETURN;
    END IF;
    SELECT * INTO v_queue FROM queen.queues q WHERE q.id = p_queue_id;
    v_least := make_interval(secs => least(
        CASE WHEN v_queue.retention_enabled THEN nullif(v_queue.retention_seconds, 0) END,
        CASE WHEN v_queue.retention_enabled THEN nullif(v_queue.completed_retention_seconds, 0) END,
        nullif(v_queue.max_wait_time_seconds, 0)));
    IF v_least IS NULL THEN
        RETURN;
    END IF;
    v_groups := ARRAY(SELECT g.consumer_group FROM queen.queue_groups(v_queue.id, v_queue.name) g);
    -- If a stream started over under its group's name, its old position does not count.
    SELECT min(s.xid) INTO v_spark_xid FROM (
        SELECT DISTINCT ON (p.consumer_group) p.xid FROM queen.spark_positions p
        WHERE p.queues::jsonb ? v_queue.name
        ORDER BY p.consumer_group, p.updated_at DESC
    ) s;

    FOR v_place IN
        SELECT p.id, p.name, l.first_seq
        FROM (
            SELECT x.id, x.name FROM queen.partitions x
            WHERE x.queue_id = p_queue_id AND x.name > p_after
            ORDER BY x.name LIMIT p_partitions_max
        ) p
        LEFT JOIN LATERAL (
            SELECT a.first_seq
            FROM queen.partition_lookup a
            CROSS JOIN LATERAL (
                SELECT m.created_at FROM queen.messages m
                WHERE m.partition_id = a.partition_id AND m.seq >= a.first_seq ORDER BY m.seq LIMIT 1
            ) o
            WHERE a.partition_id = p.id AND a.last_seq >= a.first_seq
              AND o.created_at < clock_timestamp() - v_least
        ) l ON true
        ORDER BY p.name
    LOOP
        IF v_room <= 0 THEN
            next_after := v_done;
            EXIT;
        END IF;
        v_seen := v_seen + 1;
        IF v_place.first_seq IS NOT NULL THEN
            SELECT * INTO v_gone FROM queen.trim_partition(
                v_queue, v_place.id, v_place.first_seq, v_groups, v_spark_xid, v_room::integer);
            retention_messages := retention_messages + v_gone.retention_messages;
            completed_messages := completed_messages + v_gone.completed_messages;
            evicted_messages := evicted_messages + v_gone.evicted_messages;
            v_room := v_room - v_gone.cost;
            IF v_gone.has_more THEN
                next_after := v_done;
                EXIT;
            END IF;
        END IF;
        v_done := v_place.name;
    END LOOP;
    IF v_seen = p_partitions_max AND next_after IS NULL THEN
        next_after := v_done;
    END IF;

    IF retention_messages + completed_messages + evicted_messages > 0 THEN
        INSERT INTO queen.retention_history AS h
            (bucket, queue_id, retention_messages, completed_messages, evicted_messages, events)
        VALUES (date_trunc('minute', now()), p_queue_id, retention_messages, completed_messages,
                evicted_messages, 1)
        ON CONFLICT (bucket, queue_id) DO UPDATE
        SET retention_messages = h.retention_messages + excluded.retention_messages,
            completed_messages = h.completed_messages + excluded.completed_messages,
            evicted_messages = h.evicted_messages + excluded.evicted_messages,
            events = h.events + 1;
    END IF;
END
$$;
