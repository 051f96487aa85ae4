-- The (partition, group) rows that carry a lease id, live or not.
--
-- A lease id repeats the first 48 bits of the first partition it covers, so no index on lease_id is needed,
-- which would end HOT updates of the hottest table. Leases over several partitions are listed in
-- lease_partitions.
CREATE OR REPLACE FUNCTION queen.find_lease(p_lease_id uuid)
RETURNS TABLE (partition_id uuid, consumer_group text)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT pc.partition_id, pc.consumer_group::text
    FROM queen.partition_consumers pc
    WHERE pc.partition_id >= (substr(p_lease_id::text, 1, 14) || '0000-0000-000000000000')::uuid
      AND pc.partition_id <= (substr(p_lease_id::text, 1, 14) || 'ffff-ffff-ffffffffffff')::uuid
      AND pc.lease_id = p_lease_id
    UNION
    SELECT u.id, lp.consumer_group::text
    FROM queen.lease_partitions lp
    CROSS JOIN LATERAL unnest(coalesce(lp.partition_ids, ARRAY[lp.partition_id])) AS u (id)
    WHERE lp.lease_id = p_lease_id;
END;
