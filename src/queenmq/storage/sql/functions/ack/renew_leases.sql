-- Extend every live lease with one of these ids to at least its p_seconds from now; never shorten one.
--
-- Arguments: parallel arrays, one element per request; a lease may appear more than once.
-- Result: one row per request. renewed is the number of partitions extended, expires_at their earliest expiry.
-- When renewed is 0, was_known tells an expired or finished lease from an unknown one or one that was taken over.
-- Locks: cursor rows in (partition id, group) order; waits at most p_lock_timeout_ms for each.
CREATE OR REPLACE FUNCTION queen.renew_leases(
    p_lease_ids uuid[],
    p_seconds integer[],
    p_lock_timeout_ms integer
)
RETURNS TABLE (
    ordinal integer,
    renewed bigint,
    was_known boolean,
    expires_at timestamptz
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz;
BEGIN
    IF p_lock_timeout_ms IS NOT NULL THEN
        PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    END IF;
    -- Lock first, then look.
    PERFORM FROM queen.partition_consumers pc
    WHERE (pc.partition_id, pc.consumer_group) IN (
        SELECT f.partition_id, f.consumer_group
        FROM unnest(p_lease_ids) AS u (lease_id), queen.find_lease(u.lease_id) f)
    ORDER BY pc.partition_id, pc.consumer_group
    FOR UPDATE OF pc;
    v_now := clock_timestamp();

    RETURN QUERY
    WITH covered AS MATERIALIZED (
        SELECT a.lease_id, a.seconds, pc.partition_id, pc.consumer_group
        FROM (SELECT u.lease_id, max(u.seconds) AS seconds
              FROM unnest(p_lease_ids, p_seconds) AS u (lease_id, seconds) GROUP BY u.lease_id) a
        CROSS JOIN LATERAL queen.find_lease(a.lease_id) f
        JOIN queen.partition_consumers pc
            ON pc.partition_id = f.partition_id AND pc.consumer_group = f.consumer_group
        WHERE pc.lease_id = a.lease_id
    ), extended AS (
        UPDATE queen.partition_consumers pc
        SET lease_expires_at = greatest(pc.lease_expires_at, v_now + make_interval(secs => c.seconds))
        FROM covered c
        WHERE pc.partition_id = c.partition_id AND pc.consumer_group = c.consumer_group
          AND pc.lease_expires_at > v_now
        RETURNING c.lease_id, pc.lease_expires_at
    )
    SELECT u.n::integer, e.count,
           EXISTS (SELECT FROM covered c WHERE c.lease_id = u.lease_id), e.first_expiry
    FROM unnest(p_lease_ids) WITH ORDINALITY AS u (lease_id, n)
    CROSS JOIN LATERAL (
        SELECT count(*), min(x.lease_expires_at) AS first_expiry FROM extended x WHERE x.lease_id = u.lease_id
    ) e
    ORDER BY u.n;
END
$$;
