-- Give each (partition, consumer group) that has none yet a cursor at the group's start.
--
-- Arguments: parallel arrays; pairs may repeat, partitions that do not exist are passed over.
-- Tables: partition_consumers (insert), partition_lookup, consumer_groups_metadata, messages (read).
-- Locks: of the partitions concerned the lookup rows (FOR KEY SHARE, which pushes do not mind; a partition
-- that is being deleted is passed over), then the new rows, both in (partition id, group) order.
CREATE OR REPLACE FUNCTION queen.create_cursors(p_partition_ids uuid[], p_consumer_groups text[])
RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    INSERT INTO queen.partition_consumers (partition_id, consumer_group, queue_id, cursor_seq)
    SELECT c.partition_id, c.consumer_group, c.queue_id,
           queen.start_seq(c.partition_id, c.consumer_group)
    FROM (
        SELECT l.partition_id, u.consumer_group, l.queue_id
        FROM unnest(p_partition_ids, p_consumer_groups) AS u (partition_id, consumer_group)
        JOIN queen.partition_lookup l ON l.partition_id = u.partition_id
        WHERE NOT EXISTS (
            SELECT FROM queen.partition_consumers x
            WHERE x.partition_id = u.partition_id AND x.consumer_group = u.consumer_group
        )
        ORDER BY l.partition_id, u.consumer_group
        FOR KEY SHARE OF l SKIP LOCKED
    ) c
    ON CONFLICT (partition_id, consumer_group) DO NOTHING;
END
$$;
