-- Give each (partition, consumer group) that has none yet a cursor at the group's start.
--
-- Arguments: parallel arrays; pairs may repeat, partitions that do not exist are passed over.
-- Tables: partition_consumers (insert), partition_lookup, consumer_groups_metadata, messages (read).
-- Locks: the new rows, in (partition id, group) order, so two callers with the same pairs cannot deadlock.
CREATE OR REPLACE FUNCTION queen.create_cursors(p_partition_ids uuid[], p_consumer_groups text[])
RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO queen.partition_consumers (partition_id, consumer_group, queue_id, cursor_seq)
    SELECT l.partition_id, c.consumer_group, l.queue_id,
           queen.start_seq(l.partition_id, c.consumer_group)
    FROM (
        SELECT DISTINCT u.partition_id, u.consumer_group
        FROM unnest(p_partition_ids, p_consumer_groups) AS u (partition_id, consumer_group)
        WHERE NOT EXISTS (
            SELECT FROM queen.partition_consumers x
            WHERE x.partition_id = u.partition_id AND x.consumer_group = u.consumer_group
        )
    ) c
    JOIN queen.partition_lookup l ON l.partition_id = c.partition_id
    ORDER BY l.partition_id, c.consumer_group
    ON CONFLICT (partition_id, consumer_group) DO NOTHING;
END;
