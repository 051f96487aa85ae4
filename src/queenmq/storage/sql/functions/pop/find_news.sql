-- Return what has happened in queues since their last full searches. All idle pops of a queue share this query.
--
-- Arguments: parallel arrays, one element per queue; p_horizons has the transaction horizon of the oldest search.
-- Result: one row per queue, in order. partition_names have messages written at or above the horizon; is_changed
-- says that this is not all: the queue was changed otherwise, or 5,000 messages and more are new. horizon is where the
-- next query may start. Everything that a search did not see was written at or above its horizon.
-- Takes no locks.
CREATE OR REPLACE FUNCTION queen.find_news(p_queue_names text[], p_horizons xid8[])
RETURNS TABLE (
    is_changed boolean,
    partition_names text[],
    horizon text
)
LANGUAGE sql STABLE
SET plan_cache_mode = force_generic_plan
AS $$
    SELECT coalesce(q.changed_xid >= u.since, false) OR f.count = 5000,
           ARRAY(SELECT p.name::text FROM unnest(f.ids) AS i (id) JOIN queen.partitions p ON p.id = i.id),
           pg_snapshot_xmin(pg_current_snapshot())::text
    FROM unnest(p_queue_names, p_horizons) WITH ORDINALITY AS u (queue_name, since, n)
    LEFT JOIN queen.queues q ON q.name = u.queue_name
    CROSS JOIN LATERAL (
        SELECT array_agg(DISTINCT m.partition_id) AS ids, count(*)
        FROM (SELECT m.partition_id FROM queen.messages m
              WHERE m.queue_id = q.id AND m.xid >= u.since LIMIT 5000) m
    ) f
    ORDER BY u.n
$$;
