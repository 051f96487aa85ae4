-- Remember where consumer groups start on a queue, the first time each is seen there.
--
-- Arguments: parallel arrays, one element per subscription. An empty partition name means the whole
-- queue. A NULL time means `new`: everything committed after this call. Otherwise: everything created at
-- or after that time.
-- A `new` group gets its cursors here, one per existing partition, at that partition's newest committed
-- message. A start time would not do: a message may commit after the subscription with an earlier time.
-- Tables: consumer_groups_metadata, partition_consumers (insert).
-- Locks: the queues' rows (FOR KEY SHARE); then per subscription the new metadata row, an advisory lock of
-- its queue and group (create_cursors takes it shared), the lookup rows (FOR KEY SHARE), the new cursors;
-- each in key order.
CREATE OR REPLACE FUNCTION queen.subscribe_groups(
    p_queue_names text[],
    p_partition_names text[],
    p_consumer_groups text[],
    p_times timestamptz[]
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_asked record;
    v_queue_id uuid;
BEGIN
    PERFORM FROM queen.queues q WHERE q.name = ANY (p_queue_names) ORDER BY q.name FOR KEY SHARE;
    FOR v_asked IN
        SELECT u.queue_name, u.consumer_group, u.partition_name, u.start_time
        FROM unnest(p_queue_names, p_partition_names, p_consumer_groups, p_times)
             WITH ORDINALITY AS u (queue_name, partition_name, consumer_group, start_time, ordinal)
        ORDER BY u.queue_name, u.consumer_group, u.partition_name, u.ordinal
    LOOP
        INSERT INTO queen.consumer_groups_metadata
            (queue_name, consumer_group, partition_name, subscription_mode, subscription_timestamp)
        VALUES (v_asked.queue_name, v_asked.consumer_group, v_asked.partition_name,
                CASE WHEN v_asked.start_time IS NULL THEN 'new' ELSE 'timestamp' END,
                coalesce(v_asked.start_time, clock_timestamp()))
        ON CONFLICT (queue_name, consumer_group, partition_name) DO NOTHING;
        CONTINUE WHEN NOT FOUND OR v_asked.start_time IS NOT NULL;
        SELECT q.id INTO v_queue_id FROM queen.queues q WHERE q.name = v_asked.queue_name;
        CONTINUE WHEN NOT FOUND;
        PERFORM pg_advisory_xact_lock(
            hashtextextended(v_asked.consumer_group, hashtextextended(v_queue_id::text, 0)));
        INSERT INTO queen.partition_consumers (partition_id, consumer_group, queue_id, cursor_seq)
        SELECT f.partition_id, v_asked.consumer_group, v_queue_id, f.last_seq
        FROM (
            SELECT l.partition_id, l.last_seq
            FROM queen.partitions p
            JOIN queen.partition_lookup l ON l.partition_id = p.id
            WHERE p.queue_id = v_queue_id AND v_asked.partition_name IN ('', p.name)
            ORDER BY l.partition_id
            FOR KEY SHARE OF l
        ) f
        ON CONFLICT (partition_id, consumer_group) DO NOTHING;
    END LOOP;
END
$$;
