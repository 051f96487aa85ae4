-- Read state of stream queries, each in one partition, in key order.
--
-- Arguments: parallel arrays with one element per ask. p_is_keyed: only the keys that p_keys has for it; p_key_asks
-- says to which ask each of those belongs. p_prefixes: keys that begin with this (NULL: any). p_ripe_ats: only values
-- whose windowEnd is a number up to this (NULL: all), and none at all while the query's group holds a lease on the
-- partition: its worker is about to change them.
-- Result: one row per ask, in order; version is NULL where no such query exists. rows_json is the inside of a JSON
-- array.
-- What is read outside a lease is marked as offered, so that a flush may remove it as long as it is the same.
-- Tables: queen_streams.queries, queen_streams.partitions, partition_consumers (read), queen_streams.state (read,
-- update).
-- Locks: the state rows that are marked, in key order; those held by another session are left alone.
CREATE OR REPLACE FUNCTION queen.read_states(
    p_query_ids uuid[],
    p_partition_ids uuid[],
    p_is_keyed boolean[],
    p_key_asks integer[],
    p_keys text[],
    p_prefixes text[],
    p_ripe_ats double precision[]
)
RETURNS TABLE (version bigint, rows_json text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_is_known boolean[];
    v_is_leased boolean[];
BEGIN
    SELECT array_agg(q.id IS NOT NULL ORDER BY a.n),
           array_agg(coalesce(c.lease_expires_at > clock_timestamp(), false) ORDER BY a.n)
    INTO v_is_known, v_is_leased
    FROM unnest(p_query_ids, p_partition_ids) WITH ORDINALITY AS a (query_id, partition_id, n)
    LEFT JOIN queen_streams.queries q ON q.id = a.query_id
    LEFT JOIN queen_streams.partitions p ON p.query_id = q.id AND p.partition_id = a.partition_id
    LEFT JOIN queen.partition_consumers c
        ON c.partition_id = a.partition_id AND c.consumer_group = coalesce(p.consumer_group, 'streams.' || q.name);
    IF false = ANY (v_is_leased) THEN
        UPDATE queen_streams.state s SET is_offered = true
        WHERE (s.query_id, s.partition_id, s.key) IN (
            SELECT x.query_id, x.partition_id, x.key
            FROM unnest(p_query_ids, p_partition_ids, p_is_keyed, p_prefixes, p_ripe_ats, v_is_leased) WITH ORDINALITY
                AS a (query_id, partition_id, is_keyed, prefix, ripe_at, is_leased, n)
            JOIN queen_streams.state x ON x.query_id = a.query_id AND x.partition_id = a.partition_id
            WHERE NOT a.is_leased AND NOT x.is_offered
              AND (NOT a.is_keyed OR EXISTS (SELECT FROM unnest(p_key_asks, p_keys) AS k (ask, key)
                                             WHERE k.ask = a.n AND k.key = x.key))
              AND (a.prefix IS NULL OR starts_with(x.key, a.prefix))
              AND (a.ripe_at IS NULL OR x.window_end <= a.ripe_at)
            ORDER BY x.query_id, x.partition_id, x.key
            FOR UPDATE OF x SKIP LOCKED);
    END IF;
    -- One snapshot for both: a version that is older than the rows would refuse a cycle that has seen them all.
    RETURN QUERY
    SELECT CASE WHEN a.is_known THEN coalesce(p.version, 0) END, r.rows_json
    FROM unnest(p_query_ids, p_partition_ids, p_is_keyed, p_prefixes, p_ripe_ats, v_is_known, v_is_leased)
        WITH ORDINALITY AS a (query_id, partition_id, is_keyed, prefix, ripe_at, is_known, is_leased, n)
    LEFT JOIN queen_streams.partitions p ON p.query_id = a.query_id AND p.partition_id = a.partition_id
    CROSS JOIN LATERAL (
        SELECT string_agg('{"key":' || to_json(s.key) || ',"value":' || s.value || ',"updated_at":'
                          || to_json(to_char(s.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
                          || '}', ',' ORDER BY s.key) AS rows_json
        FROM queen_streams.state s
        WHERE s.query_id = a.query_id AND s.partition_id = a.partition_id
          AND NOT (a.is_leased AND a.ripe_at IS NOT NULL)
          AND (NOT a.is_keyed OR EXISTS (SELECT FROM unnest(p_key_asks, p_keys) AS k (ask, key)
                                         WHERE k.ask = a.n AND k.key = s.key))
          AND (a.prefix IS NULL OR starts_with(s.key, a.prefix))
          AND (a.ripe_at IS NULL OR s.window_end <= a.ripe_at)
    ) r
    ORDER BY a.n;
END
$$;
