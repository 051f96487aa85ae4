-- name: register_query
SELECT query_id, is_fresh, is_reset, known_hash FROM queen.register_query($1, $2, $3, $4, $5, $6);

-- name: delete_query
SELECT source_queue, consumer_groups FROM queen.delete_query($1);

-- name: read_states
SELECT version, rows_json FROM queen.read_states($1, $2, $3, $4, $5, $6, $7);

-- name: commit_cycles
SELECT * FROM queen.commit_cycles(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
    $24);

-- name: find_busy_pairs
SELECT query_id, partition_id FROM queen.find_busy_pairs($1, $2);

-- name: measure_state
SELECT t.query_id, sum(t.state_bytes)::bigint FROM queen_streams.partitions t
WHERE t.query_id = ANY ($1::uuid[]) GROUP BY t.query_id;

-- name: is_last_cycle
SELECT EXISTS (
    SELECT FROM queen_streams.partitions t WHERE t.query_id = $1 AND t.partition_id = $2 AND t.digest = $3);

-- name: note_errors
-- Skip a row that another session registers or deletes.
UPDATE queen_streams.queries q SET last_error = u.error, last_error_at = clock_timestamp()
FROM unnest($1::uuid[], $2::text[]) AS u (id, error)
WHERE q.id = u.id
  AND q.id IN (SELECT x.id FROM queen_streams.queries x WHERE x.id = ANY ($1::uuid[]) FOR UPDATE SKIP LOCKED);

-- name: list_queries
SELECT q.id, q.name::text, q.source_queue::text, q.sink_queue::text, q.config_hash, q.created_at, q.registered_at,
       q.last_error, q.last_error_at, t.partitions, t.cycles, t.state_keys, t.state_bytes, t.last_cycle_at,
       g.consumer_group, l.offset_lag, l.time_lag_seconds
FROM queen_streams.queries q
CROSS JOIN LATERAL (
    SELECT count(*) AS partitions, coalesce(sum(p.version), 0)::bigint AS cycles,
           coalesce(sum(p.state_keys), 0)::bigint AS state_keys,
           coalesce(sum(p.state_bytes), 0)::bigint AS state_bytes, max(p.last_cycle_at) AS last_cycle_at
    FROM queen_streams.partitions p WHERE p.query_id = q.id
) t
CROSS JOIN LATERAL (
    SELECT coalesce((SELECT p.consumer_group::text FROM queen_streams.partitions p WHERE p.query_id = q.id
                     ORDER BY p.last_cycle_at DESC NULLS LAST LIMIT 1), 'streams.' || q.name) AS consumer_group
) g
CROSS JOIN LATERAL (
    SELECT coalesce(sum(x.offset_lag), 0)::bigint AS offset_lag,
           coalesce(extract(epoch FROM now() - min(x.oldest_at)), 0)::double precision AS time_lag_seconds
    FROM queen.group_lags(g.consumer_group) x
    JOIN queen.queues y ON y.id = x.queue_id
    WHERE y.name = q.source_queue
) l
WHERE $1::text IS NULL OR q.name = $1
ORDER BY q.name
LIMIT $2 OFFSET $3;
