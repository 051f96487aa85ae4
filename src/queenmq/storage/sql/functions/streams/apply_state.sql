-- Put and delete state rows of cycles, and count what that changes.
--
-- Arguments: p_is_offered: per cycle, whether the rows it puts may be removed by a flush as they are; the p_op
-- arrays: one element per operation; a value of NULL deletes, and no key stands twice in a cycle.
-- Result: a row per cycle that has operations: by how many rows and bytes its state has grown.
-- Tables: queen_streams.state (insert, update, delete). The caller holds the rows of the pairs.
CREATE OR REPLACE FUNCTION queen.apply_state(
    p_query_ids uuid[],
    p_partition_ids uuid[],
    p_is_offered boolean[],
    p_op_cycles integer[],
    p_op_keys text[],
    p_op_values text[],
    p_op_window_ends double precision[]
)
RETURNS TABLE (cycle integer, keys bigint, bytes bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH op AS MATERIALIZED (
        SELECT o.cycle, p_query_ids[o.cycle] AS query_id, p_partition_ids[o.cycle] AS partition_id, o.key, o.value,
               o.window_end, octet_length(o.key) + octet_length(o.value) AS bytes
        FROM unnest(p_op_cycles, p_op_keys, p_op_values, p_op_window_ends) AS o (cycle, key, value, window_end)
    ), old AS MATERIALIZED (
        SELECT o.cycle, s.bytes FROM op o
        JOIN queen_streams.state s
            ON s.query_id = o.query_id AND s.partition_id = o.partition_id AND s.key = o.key
    ), gone AS (
        DELETE FROM queen_streams.state s USING op o
        WHERE o.value IS NULL
          AND s.query_id = o.query_id AND s.partition_id = o.partition_id AND s.key = o.key
    ), put AS (
        INSERT INTO queen_streams.state AS s (query_id, partition_id, key, value, window_end, bytes, is_offered)
        SELECT o.query_id, o.partition_id, o.key, o.value::json, o.window_end, o.bytes, p_is_offered[o.cycle]
        FROM op o WHERE o.value IS NOT NULL
        ON CONFLICT (query_id, partition_id, key) DO UPDATE
        SET value = excluded.value, window_end = excluded.window_end, bytes = excluded.bytes,
            is_offered = excluded.is_offered, updated_at = clock_timestamp()
    )
    SELECT o.cycle, count(o.bytes) - coalesce(max(d.keys), 0), (coalesce(sum(o.bytes), 0) - coalesce(max(d.bytes), 0))::bigint
    FROM op o
    LEFT JOIN (SELECT x.cycle, count(*) AS keys, sum(x.bytes) AS bytes FROM old x GROUP BY x.cycle) d
        ON d.cycle = o.cycle
    GROUP BY o.cycle;
END
$$;
