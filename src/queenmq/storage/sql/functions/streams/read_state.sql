-- Read the state of a stream query in one partition, in key order.
--
-- Arguments: p_keys: these keys only (NULL: all); p_prefix: keys that begin with this (NULL: any); p_ripe_at: only
-- values whose windowEnd is a number up to this (NULL: all), and none at all while the query's group holds a lease
-- on the partition: its worker is about to change them.
-- Result: one row; version is NULL where no such query exists. rows_json is the inside of a JSON array.
-- What is read outside a lease is marked as offered, so that a flush may remove it as long as it is the same.
-- Tables: queen_streams.partitions, partition_consumers (read), queen_streams.state (read, update).
-- Locks: the state rows that are marked, in key order; those held by another session are left alone.
CREATE OR REPLACE FUNCTION queen.read_state(
    p_query_id uuid,
    p_partition_id uuid,
    p_keys text[],
    p_prefix text,
    p_ripe_at double precision,
    OUT version bigint,
    OUT rows_json text
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_is_leased boolean;
BEGIN
    SELECT coalesce(p.version, 0), coalesce(c.lease_expires_at > clock_timestamp(), false)
    INTO version, v_is_leased
    FROM queen_streams.queries q
    LEFT JOIN queen_streams.partitions p ON p.query_id = q.id AND p.partition_id = p_partition_id
    LEFT JOIN queen.partition_consumers c
        ON c.partition_id = p_partition_id AND c.consumer_group = coalesce(p.consumer_group, 'streams.' || q.name)
    WHERE q.id = p_query_id;
    IF version IS NULL OR (v_is_leased AND p_ripe_at IS NOT NULL) THEN
        RETURN;
    END IF;
    IF NOT v_is_leased THEN
        UPDATE queen_streams.state s SET is_offered = true
        WHERE (s.query_id, s.partition_id, s.key) IN (
            SELECT x.query_id, x.partition_id, x.key FROM queen_streams.state x
            WHERE x.query_id = p_query_id AND x.partition_id = p_partition_id AND NOT x.is_offered
              AND (p_keys IS NULL OR x.key = ANY (p_keys))
              AND (p_prefix IS NULL OR starts_with(x.key, p_prefix))
              AND (p_ripe_at IS NULL OR x.window_end <= p_ripe_at)
            ORDER BY x.key
            FOR UPDATE SKIP LOCKED);
    END IF;
    -- One snapshot for both: a version that is older than the rows would refuse a cycle that has seen them all.
    SELECT coalesce((SELECT p.version FROM queen_streams.partitions p
                     WHERE p.query_id = p_query_id AND p.partition_id = p_partition_id), 0),
           (SELECT string_agg('{"key":' || to_json(s.key) || ',"value":' || s.value || ',"updated_at":'
                              || to_json(to_char(s.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
                              || '}', ',' ORDER BY s.key)
            FROM queen_streams.state s
            WHERE s.query_id = p_query_id AND s.partition_id = p_partition_id
              AND (p_keys IS NULL OR s.key = ANY (p_keys))
              AND (p_prefix IS NULL OR starts_with(s.key, p_prefix))
              AND (p_ripe_at IS NULL OR s.window_end <= p_ripe_at))
    INTO version, rows_json;
END
$$;
