-- Remember where consumer groups start on a queue, the first time each is seen there.
--
-- Arguments: parallel arrays, one element per subscription. An empty partition name means the whole
-- queue. A NULL time means `new`: everything committed after this call. Otherwise: everything created at
-- or after that time.
-- A `new` group gets its cursors here, one per existing partition, at that partition's newest committed
-- message. A start time would not do: a message may commit after the subscription with an earlier time.
-- Tables: consumer_groups_metadata, partition_consumers (insert).
-- Locks: the new metadata rows, the lookup rows of `new` groups (FOR KEY SHARE), the new cursors; each in
-- key order.
CREATE OR REPLACE FUNCTION queen.subscribe_groups(
    p_queue_names text[],
    p_partition_names text[],
    p_consumer_groups text[],
    p_times timestamptz[]
)
RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    WITH asked AS (
        SELECT DISTINCT ON (u.queue_name, u.consumer_group, u.partition_name) u.*
        FROM unnest(p_queue_names, p_partition_names, p_consumer_groups, p_times)
             WITH ORDINALITY AS u (queue_name, partition_name, consumer_group, start_time, ordinal)
        ORDER BY u.queue_name, u.consumer_group, u.partition_name, u.ordinal
    ), added AS (
        INSERT INTO queen.consumer_groups_metadata
            (queue_name, consumer_group, partition_name, subscription_mode, subscription_timestamp)
        SELECT a.queue_name, a.consumer_group, a.partition_name,
               CASE WHEN a.start_time IS NULL THEN 'new' ELSE 'timestamp' END,
               coalesce(a.start_time, clock_timestamp())
        FROM asked a
        ORDER BY a.queue_name, a.consumer_group, a.partition_name
        ON CONFLICT (queue_name, consumer_group, partition_name) DO NOTHING
        RETURNING queue_name, consumer_group, partition_name, subscription_mode
    )
    INSERT INTO queen.partition_consumers (partition_id, consumer_group, queue_id, cursor_seq)
    SELECT f.partition_id, f.consumer_group, f.queue_id, f.last_seq
    FROM (
        SELECT l.partition_id, n.consumer_group, l.queue_id, l.last_seq
        FROM added n
        JOIN queen.queues q ON q.name = n.queue_name
        JOIN queen.partitions p ON p.queue_id = q.id AND n.partition_name IN ('', p.name)
        JOIN queen.partition_lookup l ON l.partition_id = p.id
        WHERE n.subscription_mode = 'new'
        ORDER BY l.partition_id, n.consumer_group
        FOR KEY SHARE OF l
    ) f
    ON CONFLICT (partition_id, consumer_group) DO NOTHING;
END;
