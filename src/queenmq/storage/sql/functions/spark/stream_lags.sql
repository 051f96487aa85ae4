-- How far Spark streams with a consumer group are behind, a row per stream and queue. p_consumer_group NULL:
-- all groups.
--
-- Result: position is the transaction up to which the stream has read; offset_lag counts the messages from
-- there on, up to a million, over all partitions of the queue; oldest_at is when the first of them was created
-- (NULL: there is none); updated_at is when the stream last told its position. Queues that are gone are missing.
-- Tables: spark_positions, queues, messages by queue and transaction. Takes no locks.
-- Plain SQL without settings of its own, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.stream_lags(p_consumer_group text)
RETURNS TABLE (
    consumer_group text,
    query_id text,
    queue_name text,
    "position" xid8,
    offset_lag bigint,
    oldest_at timestamptz,
    updated_at timestamptz
)
LANGUAGE sql STABLE
AS $$
    SELECT s.consumer_group::text, s.query_id::text, q.name::text, s.xid, n.messages, o.created_at,
           s.updated_at
    FROM queen.spark_positions s
    CROSS JOIN LATERAL json_array_elements_text(s.queues::json) AS u (name)
    JOIN queen.queues q ON q.name = u.name
    CROSS JOIN LATERAL (
        SELECT count(*) AS messages
        FROM (SELECT FROM queen.messages m WHERE m.queue_id = q.id AND m.xid >= s.xid LIMIT 1000000) w
    ) n
    LEFT JOIN LATERAL (
        SELECT m.created_at FROM queen.messages m
        WHERE m.queue_id = q.id AND m.xid >= s.xid
        ORDER BY m.xid LIMIT 1
    ) o ON true
    WHERE p_consumer_group IS NULL OR s.consumer_group = p_consumer_group
$$;
