-- name: history_totals
SELECT name, value FROM queen.history_totals
UNION ALL
SELECT 'leases_expired', CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM queen.expired_leases s;

-- name: rolled_until
-- Return the time up to which a span can be read hour by hour.
SELECT coalesce(max(at) + interval '1 hour', 'epoch') FROM queen.history_workers WHERE step_minutes = 60;

-- name: busiest_queues
-- Use the last part of the span, so that a long span costs no more than a short one.
SELECT h.queue FROM queen.history_queues h
WHERE h.step_minutes = $1 AND h.at >= $2 AND h.at < $3
GROUP BY h.queue
ORDER BY sum(h.push_messages + h.pop_messages + h.ack_success) DESC, h.queue LIMIT $4;

-- name: queue_history
WITH removals AS (
    SELECT date_bin(make_interval(mins => $6), r.bucket, 'epoch') AS at, q.name, sum(r.removed_partitions) AS partitions
    FROM queen.retention_history r JOIN queen.queues q ON q.id = r.queue_id
    WHERE r.bucket >= $2 AND r.bucket < $5 AND r.removed_partitions > 0 AND q.name = ANY ($1)
    GROUP BY 1, 2
)
SELECT date_bin(make_interval(mins => $6), h.at, 'epoch') AS at, h.queue,
       sum(h.push_requests)::bigint AS push_requests, sum(h.push_messages)::bigint AS push_messages,
       sum(h.push_bytes)::bigint AS push_bytes, sum(h.duplicates)::bigint AS duplicates,
       sum(h.pop_requests)::bigint AS pop_requests, sum(h.pop_messages)::bigint AS pop_messages,
       sum(h.pop_empty)::bigint AS pop_empty, sum(h.ack_requests)::bigint AS ack_requests,
       sum(h.ack_success)::bigint AS ack_success, sum(h.ack_failed)::bigint AS ack_failed,
       sum(h.retried)::bigint AS retried, sum(h.dead_lettered)::bigint AS dead_lettered,
       sum(h.transactions)::bigint AS transactions, sum(h.errors)::bigint AS errors,
       sum(h.lag_ms) AS lag_ms, max(h.lag_ms_max) AS lag_ms_max, sum(h.lag_count)::bigint AS lag_count,
       max(h.parked_now)::bigint AS parked,
       coalesce(max(d.partitions), 0)::bigint AS partitions_deleted
FROM (
    SELECT x.*, sum(x.parked) OVER (PARTITION BY x.step_minutes, x.at, x.queue) AS parked_now
    FROM queen.history_queues x
    WHERE x.queue = ANY ($1)
      AND ((x.step_minutes = 60 AND x.at >= $2 AND x.at < $3) OR (x.step_minutes = 1 AND x.at >= $4 AND x.at < $5))
) h
LEFT JOIN removals d ON d.at = date_bin(make_interval(mins => $6), h.at, 'epoch') AND d.name = h.queue
GROUP BY 1, 2 ORDER BY 1, 2;

-- name: group_history
-- Return a row per bucket and group, of queue $1 and group $2 (NULL for all), for the $8 groups furthest behind.
WITH found AS MATERIALIZED (
    SELECT h.* FROM queen.history_groups h
    WHERE ($1::text IS NULL OR h.queue = $1) AND ($2::text IS NULL OR h.consumer_group = $2)
      AND ((h.step_minutes = 60 AND h.at >= $3 AND h.at < $4) OR (h.step_minutes = 1 AND h.at >= $5 AND h.at < $6))
), chosen AS (
    SELECT f.queue, f.consumer_group, f.kind FROM found f
    GROUP BY 1, 2, 3
    ORDER BY max(f.lag_max) DESC, max(f.at) DESC, 1, 2, 3 LIMIT $8
)
SELECT date_bin(make_interval(mins => $7), f.at, 'epoch') AS at, f.queue, f.consumer_group, f.kind,
       avg(f.lag)::bigint AS lag, max(f.lag_max) AS lag_max, max(f.lag_seconds) AS lag_seconds
FROM found f JOIN chosen c USING (queue, consumer_group, kind)
GROUP BY 1, 2, 3, 4 ORDER BY 2, 3, 4, 1;

-- name: queues_of_scope
SELECT q.name::text FROM queen.queues_in_scope($1, $2, $3) q ORDER BY q.name LIMIT $4;

-- name: worker_history
SELECT h.at, h.hostname, h.worker_id, h.pid, h.port, h.cpu_user, h.cpu_system, h.rss_bytes, h.virtual_bytes,
       h.pool_size, h.pool_idle, h.pool_active, h.pool_waiting, h.loop_lag_ms, h.loop_lag_ms_max, h.http_requests,
       h.push_requests, h.push_messages, h.pop_requests, h.pop_messages, h.ack_requests, h.ack_success,
       h.ack_failed, h.dead_lettered, h.transactions, h.db_errors, h.lag_ms, h.lag_ms_max, h.lag_count, h.parked
FROM queen.history_workers h
WHERE ((h.step_minutes = 60 AND h.at >= $1 AND h.at < $2) OR (h.step_minutes = 1 AND h.at >= $3 AND h.at < $4))
  AND ($5::text IS NULL OR h.hostname = $5) AND ($6::integer IS NULL OR h.worker_id = $6)
ORDER BY h.at, h.hostname, h.worker_id LIMIT $7;

-- name: parked_history
SELECT h.at, h.queue, h.worker, h.parked FROM queen.history_queues h
WHERE h.step_minutes = 1 AND h.at >= $1 AND h.at < $2 AND ($3::text IS NULL OR h.queue = $3) AND h.parked > 0
ORDER BY h.at DESC, h.queue, h.worker LIMIT $4;

-- name: last_minute
-- Return rates and waiting pops of the last whole minute, by queue, the busiest first.
SELECT h.queue, sum(h.push_requests)::bigint AS push_requests, sum(h.push_messages)::bigint AS push_messages,
       sum(h.pop_requests)::bigint AS pop_requests, sum(h.pop_messages)::bigint AS pop_messages,
       sum(h.pop_empty)::bigint AS pop_empty, sum(h.ack_requests)::bigint AS ack_requests,
       sum(h.ack_success)::bigint AS ack_success, sum(h.ack_failed)::bigint AS ack_failed,
       sum(h.transactions)::bigint AS transactions, sum(h.lag_ms) AS lag_ms, max(h.lag_ms_max) AS lag_ms_max,
       sum(h.lag_count)::bigint AS lag_count, sum(h.parked)::bigint AS parked
FROM queen.history_queues h
WHERE h.step_minutes = 1 AND h.at = date_trunc('minute', now()) - interval '1 minute' AND h.queue <> ''
GROUP BY h.queue
ORDER BY sum(h.push_messages + h.pop_messages + h.ack_success) + sum(h.parked) DESC, h.queue LIMIT $1;
