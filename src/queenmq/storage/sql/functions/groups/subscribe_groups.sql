-- Remember where consumer groups start on a queue, the first time each is seen there.
--
-- Arguments: parallel arrays, one element per subscription. An empty partition name means the whole
-- queue. A NULL time means `new`: everything committed after this call. Otherwise: everything created at
-- or after that time.
-- One row whatever the number of partitions: cursors are made when the group first pops a partition. The start of
-- a whole queue covers its partitions: a later one of a partition must not skip what came between. Only two times
-- may stand beside each other; then that of the partition counts there.
-- Tables: consumer_groups_metadata (insert).
-- Locks: the queues' rows (FOR KEY SHARE); then per subscription, in key order, the row of the whole queue
-- (FOR KEY SHARE) if it is about a partition, the new row, and an advisory lock of its queue and group, which
-- create_cursors takes shared: no pop makes a cursor while the start is not committed yet.
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
BEGIN
    PERFORM FROM queen.queues q WHERE q.name = ANY (p_queue_names) ORDER BY q.name FOR KEY SHARE;
    FOR v_asked IN
        SELECT u.queue_name, u.consumer_group, u.partition_name, u.start_time
        FROM unnest(p_queue_names, p_partition_names, p_consumer_groups, p_times)
             WITH ORDINALITY AS u (queue_name, partition_name, consumer_group, start_time, ordinal)
        ORDER BY u.queue_name, u.consumer_group, u.partition_name, u.ordinal
    LOOP
        IF v_asked.partition_name <> '' THEN
            PERFORM FROM queen.consumer_groups_metadata g
            WHERE g.queue_name = v_asked.queue_name AND g.consumer_group = v_asked.consumer_group
              AND g.partition_name = '' AND (v_asked.start_time IS NULL OR g.subscription_mode = 'new')
            FOR KEY SHARE;
            CONTINUE WHEN FOUND;
        END IF;
        -- The snapshot is that of this statement, and the time is later than it.
        INSERT INTO queen.consumer_groups_metadata
            (queue_name, consumer_group, partition_name, subscription_mode, subscription_timestamp,
             start_snapshot, start_xid)
        VALUES (v_asked.queue_name, v_asked.consumer_group, v_asked.partition_name,
                CASE WHEN v_asked.start_time IS NULL THEN 'new' ELSE 'timestamp' END,
                coalesce(v_asked.start_time, clock_timestamp()),
                CASE WHEN v_asked.start_time IS NULL THEN pg_current_snapshot() END,
                CASE WHEN v_asked.start_time IS NULL THEN pg_current_xact_id() END)
        ON CONFLICT (queue_name, consumer_group, partition_name) DO NOTHING;
        CONTINUE WHEN NOT FOUND;
        PERFORM pg_advisory_xact_lock(
            hashtextextended(v_asked.consumer_group, hashtextextended(q.id::text, 0)))
        FROM queen.queues q WHERE q.name = v_asked.queue_name;
    END LOOP;
END
$$;
