-- Extend every live lease with this id to at least p_seconds from now; never shorten one.
--
-- Result: one row. renewed is the number of partitions extended, expires_at their earliest expiry. When
-- renewed is 0, was_known tells an expired or finished lease from one that never was or was taken over.
-- Locks: cursor rows in (partition id, group) order.
CREATE OR REPLACE FUNCTION queen.renew_lease(
    p_lease_id uuid,
    p_seconds integer,
    OUT renewed bigint,
    OUT was_known boolean,
    OUT expires_at timestamptz
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_now timestamptz;
BEGIN
    PERFORM FROM queen.partition_consumers pc
    WHERE (pc.partition_id, pc.consumer_group) IN (
        SELECT f.partition_id, f.consumer_group FROM queen.find_lease(p_lease_id) f)
    ORDER BY pc.partition_id, pc.consumer_group
    FOR UPDATE OF pc;
    v_now := clock_timestamp();
    WITH extended AS (
        UPDATE queen.partition_consumers pc
        SET lease_expires_at = greatest(pc.lease_expires_at, v_now + make_interval(secs => p_seconds))
        FROM queen.find_lease(p_lease_id) f
        WHERE pc.partition_id = f.partition_id AND pc.consumer_group = f.consumer_group
          AND pc.lease_id = p_lease_id AND pc.lease_expires_at > v_now
        RETURNING pc.lease_expires_at
    )
    SELECT count(*), min(lease_expires_at) INTO renewed, expires_at FROM extended;
    was_known := renewed > 0 OR EXISTS (
        SELECT FROM queen.find_lease(p_lease_id) f
        JOIN queen.partition_consumers pc
            ON pc.partition_id = f.partition_id AND pc.consumer_group = f.consumer_group
        WHERE pc.lease_id = p_lease_id);
END
$$;
