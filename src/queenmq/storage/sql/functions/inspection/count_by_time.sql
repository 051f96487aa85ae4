-- How many messages that are kept were pushed in each of the steps from p_start to p_end.
--
-- Arguments: scope as in queues_in_scope; p_step is above 0; p_partitions_max: of more partitions with
-- messages since p_start, only those pushed to last are counted.
-- Result: a row per step in which there are any: starts_at, messages; is_cut: some partitions were left out.
-- created_at has no index; per partition the ends of the range are found by seq_before. Few messages between them are
-- read. Otherwise the ends of the steps are searched for as well. Takes no locks.
CREATE OR REPLACE FUNCTION queen.count_by_time(
    p_queue_name text,
    p_namespace text,
    p_task text,
    p_start timestamptz,
    p_end timestamptz,
    p_step interval,
    p_partitions_max integer
)
RETURNS TABLE (starts_at timestamptz, messages bigint, is_cut boolean)
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    -- A search reads about as many rows.
    c_rows_per_step CONSTANT integer := 20;
    v_steps CONSTANT bigint := ceil(extract(epoch FROM p_end - p_start) / extract(epoch FROM p_step));
BEGIN
    RETURN QUERY
    WITH active AS MATERIALIZED (
        SELECT l.partition_id, l.last_seq, l.last_message_created_at,
               row_number() OVER (ORDER BY l.last_message_created_at DESC, l.partition_id) AS n
        FROM queen.queues_in_scope(p_queue_name, p_namespace, p_task) q
        JOIN queen.partition_lookup l ON l.queue_id = q.id
        WHERE l.last_message_created_at >= p_start AND l.last_seq >= l.first_seq
        ORDER BY l.last_message_created_at DESC, l.partition_id
        LIMIT p_partitions_max + 1
    ), ranged AS MATERIALIZED (
        SELECT a.partition_id, queen.seq_before(a.partition_id, p_start) AS low,
               CASE WHEN a.last_message_created_at < p_end THEN a.last_seq
                    ELSE queen.seq_before(a.partition_id, p_end) END AS high
        FROM active a WHERE a.n <= p_partitions_max
    ), counted AS (
        SELECT date_bin(p_step, m.created_at, p_start) AS starts_at, count(*) AS messages
        FROM ranged r
        JOIN queen.messages m ON m.partition_id = r.partition_id AND m.seq > r.low AND m.seq <= r.high
        WHERE r.high - r.low <= v_steps * c_rows_per_step
        GROUP BY 1
        UNION ALL
        SELECT e.starts_at,
               CASE WHEN e.starts_at + p_step >= p_end THEN r.high
                    ELSE queen.seq_before(r.partition_id, e.starts_at + p_step) END
               - queen.seq_before(r.partition_id, e.starts_at)
        FROM ranged r
        CROSS JOIN generate_series(p_start, p_end - interval '1 microsecond', p_step) AS e (starts_at)
        WHERE r.high - r.low > v_steps * c_rows_per_step
    )
    SELECT c.starts_at, sum(c.messages)::bigint, (SELECT count(*) > p_partitions_max FROM active)
    FROM counted c
    GROUP BY c.starts_at
    HAVING sum(c.messages) > 0
    ORDER BY c.starts_at;
END
$$;
