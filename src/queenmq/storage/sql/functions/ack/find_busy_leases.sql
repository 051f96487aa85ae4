-- Of these leases, the ones with a cursor that another transaction holds right now.
-- Locks as find_busy_cursors.
CREATE OR REPLACE FUNCTION queen.find_busy_leases(p_lease_ids uuid[])
RETURNS uuid[]
LANGUAGE sql
AS $$
    WITH covered AS MATERIALIZED (
        SELECT u.lease_id, f.partition_id, f.consumer_group
        FROM unnest(p_lease_ids) AS u (lease_id), queen.find_lease(u.lease_id) f
    )
    SELECT coalesce(array_agg(DISTINCT c.lease_id), '{}')
    FROM queen.find_busy_cursors(
        ARRAY(SELECT x.partition_id FROM covered x ORDER BY x.partition_id, x.consumer_group),
        ARRAY(SELECT x.consumer_group FROM covered x ORDER BY x.partition_id, x.consumer_group)) b
    JOIN covered c ON c.partition_id = b.partition_id AND c.consumer_group = b.consumer_group
$$;
