-- Give each (partition, consumer group) that has none yet a cursor at the group's start.
--
-- Arguments: parallel arrays; pairs may repeat, partitions that do not exist are passed over. A pair that
-- another session is creating just now, or whose partition it is deleting, is waited for only with
-- p_may_wait; else it is passed over, so that a pop never waits.
-- Result: how many were made.
-- Tables: partition_consumers (insert), partition_lookup, consumer_groups_metadata, messages (read).
-- Locks: pair by pair in (partition id, group) order the lookup row (FOR KEY SHARE, which pushes do not mind),
-- an advisory lock shared by the creators of the group's cursors on the queue, one of the pair's own, the new row.
CREATE OR REPLACE FUNCTION queen.create_cursors(
    p_partition_ids uuid[],
    p_consumer_groups text[],
    p_may_wait boolean
)
RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_pair record;
    v_queue_id uuid;
    v_made integer := 0;
BEGIN
    FOR v_pair IN
        SELECT DISTINCT u.partition_id, u.consumer_group,
               hashtextextended(u.consumer_group, hashtextextended(u.partition_id::text, 0)) AS lock_id
        FROM unnest(p_partition_ids, p_consumer_groups) AS u (partition_id, consumer_group)
        WHERE NOT EXISTS (
            SELECT FROM queen.partition_consumers x
            WHERE x.partition_id = u.partition_id AND x.consumer_group = u.consumer_group)
        ORDER BY u.partition_id, u.consumer_group
    LOOP
        IF p_may_wait THEN
            SELECT queue_id INTO v_queue_id FROM queen.partition_lookup
            WHERE partition_id = v_pair.partition_id FOR KEY SHARE;
            CONTINUE WHEN NOT FOUND;
            PERFORM pg_advisory_xact_lock_shared(
                hashtextextended(v_pair.consumer_group, hashtextextended(v_queue_id::text, 0)));
            PERFORM pg_advisory_xact_lock(v_pair.lock_id);
        ELSE
            SELECT queue_id INTO v_queue_id FROM queen.partition_lookup
            WHERE partition_id = v_pair.partition_id FOR KEY SHARE SKIP LOCKED;
            CONTINUE WHEN NOT FOUND
                OR NOT pg_try_advisory_xact_lock_shared(
                    hashtextextended(v_pair.consumer_group, hashtextextended(v_queue_id::text, 0)))
                OR NOT pg_try_advisory_xact_lock(v_pair.lock_id);
        END IF;
        INSERT INTO queen.partition_consumers (partition_id, consumer_group, queue_id, cursor_seq)
        VALUES (v_pair.partition_id, v_pair.consumer_group, v_queue_id,
                queen.start_seq(v_pair.partition_id, v_pair.consumer_group))
        ON CONFLICT (partition_id, consumer_group) DO NOTHING;
        v_made := v_made + 1;
    END LOOP;
    RETURN v_made;
END
$$;
