-- Of these (query, partition) pairs, the ones whose row another transaction holds right now, or whose query is
-- being wiped. Takes the free rows for the length of the call and waits for nothing.
CREATE OR REPLACE FUNCTION queen.find_busy_pairs(p_query_ids uuid[], p_partition_ids uuid[])
RETURNS TABLE (query_id uuid, partition_id uuid)
LANGUAGE sql
SET plan_cache_mode = force_generic_plan
AS $$
    WITH free AS MATERIALIZED (
        SELECT t.query_id, t.partition_id FROM queen_streams.partitions t
        WHERE (t.query_id, t.partition_id) IN (
            SELECT u.q, u.p FROM unnest(p_query_ids, p_partition_ids) AS u (q, p))
        ORDER BY t.query_id, t.partition_id
        FOR UPDATE OF t SKIP LOCKED
    ), wiped AS MATERIALIZED (
        SELECT u.id FROM (SELECT DISTINCT s.id FROM unnest(p_query_ids) AS s (id)) u
        WHERE NOT pg_try_advisory_xact_lock_shared(hashtextextended(u.id::text, 2))
    )
    SELECT u.q, u.p FROM unnest(p_query_ids, p_partition_ids) AS u (q, p)
    WHERE u.q IN (SELECT w.id FROM wiped w)
       OR (EXISTS (SELECT FROM queen_streams.partitions t WHERE t.query_id = u.q AND t.partition_id = u.p)
           AND NOT EXISTS (SELECT FROM free f WHERE f.query_id = u.q AND f.partition_id = u.p))
$$;
