-- name: add_trace
SELECT queen.add_trace($1, $2, $3, $4, $5, $6);

-- name: list_message_traces
SELECT t.id::text, t.event_type, t.data::text AS data, t.consumer_group::text, t.created_at, n.names
FROM queen.message_traces t
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(x.trace_name::text ORDER BY x.trace_name), '{}') AS names
    FROM queen.message_trace_names x WHERE x.trace_id = t.id
) n
WHERE t.partition_id = $1 AND t.transaction_id = $2
ORDER BY t.created_at, t.id
LIMIT $3;

-- name: list_named_traces
SELECT t.id::text, t.transaction_id::text, t.partition_id::text, t.event_type, t.data::text AS data,
       t.consumer_group::text, t.created_at, q.name::text AS queue_name, p.name::text AS partition_name,
       -- Leave out large data, because a page has up to a thousand traces.
       CASE WHEN octet_length(m.payload::text) <= $4 THEN m.payload::text END AS payload,
       coalesce(m.is_encrypted, false) AS is_encrypted, o.names
FROM (
    SELECT x.trace_id, x.created_at FROM queen.message_trace_names x
    WHERE x.trace_name = $1
    ORDER BY x.created_at DESC, x.trace_id
    LIMIT $2 OFFSET $3
) n
JOIN queen.message_traces t ON t.id = n.trace_id
JOIN queen.partitions p ON p.id = t.partition_id
JOIN queen.queues q ON q.id = p.queue_id
LEFT JOIN queen.messages m ON m.partition_id = t.partition_id AND m.seq = t.seq
CROSS JOIN LATERAL (
    SELECT array_agg(x.trace_name::text ORDER BY x.trace_name) AS names
    FROM queen.message_trace_names x WHERE x.trace_id = t.id
) o
ORDER BY n.created_at DESC, n.trace_id;

-- name: count_named_traces
SELECT count(*) FROM queen.message_trace_names WHERE trace_name = $1;

-- name: list_trace_names
-- Read only the newest traces, because there may be as many names as messages.
SELECT n.trace_name::text, count(*) AS trace_count, count(DISTINCT (n.partition_id, n.seq)) AS message_count,
       max(n.created_at) AS last_seen
FROM (SELECT * FROM queen.message_trace_names x ORDER BY x.created_at DESC LIMIT $3) n
GROUP BY n.trace_name
ORDER BY max(n.created_at) DESC, n.trace_name
LIMIT $1 OFFSET $2;

-- name: count_trace_names
SELECT count(DISTINCT n.trace_name)
FROM (SELECT x.trace_name FROM queen.message_trace_names x ORDER BY x.created_at DESC LIMIT $1) n;

-- name: sweep_traces
WITH removed AS (
    DELETE FROM queen.message_traces
    WHERE id IN (SELECT t.id FROM queen.message_traces t
                 WHERE t.created_at < now() - make_interval(secs => $1)
                 ORDER BY t.created_at LIMIT $2
                 -- Waits for no lock, so the order of the rows does not matter.
                 FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM removed;

-- name: sweep_removed_messages
WITH removed AS (
    DELETE FROM queen.removed_messages
    WHERE (partition_id, seq) IN (
        SELECT r.partition_id, r.seq FROM queen.removed_messages r
        LEFT JOIN queen.partition_lookup l ON l.partition_id = r.partition_id
        WHERE l.partition_id IS NULL OR r.seq < l.first_seq
        LIMIT $1
        FOR UPDATE OF r SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM removed;

-- name: list_deliveries
-- Return when groups got a message and when they passed it: the steps of its queue's ackHistory that cover it, and
-- live leases that hold it. The query reads the first $3 steps of the queue after the push, whatever the number of
-- its partitions. searched_all says whether these were all. No row means that there is no such message.
WITH found AS (
    SELECT m.partition_id, m.seq, m.created_at FROM queen.messages m
    WHERE m.partition_id = $1 AND m.seq = queen.find_message($1, $2)
    UNION ALL
    (SELECT d.partition_id, d.seq, d.created_at FROM queen.dead_letter_queue d
     WHERE d.partition_id = $1 AND d.transaction_id = $2 AND queen.find_message($1, $2) IS NULL
     ORDER BY d.seq DESC LIMIT 1)
), message AS (
    SELECT f.*, q.id AS queue_id, q.ack_history, q.ack_history_since
    FROM found f JOIN queen.partitions p ON p.id = f.partition_id JOIN queen.queues q ON q.id = p.queue_id
), steps AS MATERIALIZED (
    SELECT h.* FROM message m CROSS JOIN LATERAL (
        SELECT x.* FROM queen.ack_history x
        WHERE x.queue_id = m.queue_id AND x.passed_at >= m.created_at
        ORDER BY x.passed_at, x.id LIMIT $3
    ) h
), deliveries AS (
    SELECT h.consumer_group::text, h.delivered_at, h.passed_at, h.cause, h.retries, h.dead_lettered > 0 AS has_dead
    FROM message m JOIN steps h ON h.partition_id = m.partition_id AND m.seq BETWEEN h.first_seq AND h.last_seq
    UNION ALL
    SELECT c.consumer_group::text, c.lease_acquired_at, NULL, 'lease', c.retry_count, false
    FROM message m JOIN queen.partition_consumers c
        ON c.partition_id = m.partition_id AND c.lease_expires_at > now()
        AND m.seq > c.cursor_seq AND m.seq <= c.lease_end_seq
)
SELECT m.ack_history AS is_kept, m.ack_history_since AS kept_since, (SELECT count(*) < $3 FROM steps) AS searched_all,
       d.consumer_group, d.delivered_at, d.passed_at, d.cause, d.retries, d.has_dead
FROM message m LEFT JOIN deliveries d ON true
ORDER BY coalesce(d.delivered_at, d.passed_at), d.consumer_group
LIMIT $4;
