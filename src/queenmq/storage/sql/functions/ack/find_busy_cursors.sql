-- Of these (partition, consumer group) pairs, the ones whose cursor another transaction holds right now.
-- Takes the free rows for the length of the call and waits for nothing.
CREATE OR REPLACE FUNCTION queen.find_busy_cursors(p_partition_ids uuid[], p_consumer_groups text[])
RETURNS TABLE (partition_id uuid, consumer_group text)
LANGUAGE sql
SET plan_cache_mode = force_generic_plan
AS $$
    WITH free AS MATERIALIZED (
        SELECT pc.partition_id, pc.consumer_group
        FROM queen.partition_consumers pc
        WHERE (pc.partition_id, pc.consumer_group) IN (
            SELECT u.p, u.g FROM unnest(p_partition_ids, p_consumer_groups) AS u (p, g))
        ORDER BY pc.partition_id, pc.consumer_group
        FOR UPDATE OF pc SKIP LOCKED
    )
    SELECT pc.partition_id, pc.consumer_group::text
    FROM unnest(p_partition_ids, p_consumer_groups) AS u (p, g)
    JOIN queen.partition_consumers pc ON pc.partition_id = u.p AND pc.consumer_group = u.g
    WHERE NOT EXISTS (SELECT FROM free f
                      WHERE f.partition_id = pc.partition_id AND f.consumer_group = pc.consumer_group)
$$;
