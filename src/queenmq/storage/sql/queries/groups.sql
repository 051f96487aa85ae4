-- name: seek_group
SELECT partition_id, moved_to FROM queen.seek_group($1, $2, $3, $4);

-- name: delete_group
SELECT queen.delete_group($1, $2, $3);

-- name: set_group_start
SELECT queen.set_group_start($1, $2);

-- name: find_place
SELECT EXISTS (SELECT FROM queen.queues WHERE name = $1) AS has_queue,
       EXISTS (SELECT FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id
               WHERE q.name = $1 AND p.name = $2) AS has_partition;

-- name: find_group_queues
SELECT q.name::text FROM queen.queues q
WHERE EXISTS (SELECT FROM queen.partition_consumers c WHERE c.queue_id = q.id AND c.consumer_group = $1)
UNION
SELECT g.queue_name::text FROM queen.consumer_groups_metadata g WHERE g.consumer_group = $1
ORDER BY 1;

-- name: list_groups
WITH lags AS MATERIALIZED (
    SELECT l.consumer_group, l.queue_id, count(l.total_consumed) AS members,
           count(*) FILTER (WHERE l.offset_lag > 0) AS partitions_with_lag,
           sum(l.offset_lag) AS total_lag, min(l.oldest_at) AS oldest_at
    FROM queen.group_lags(NULL) l
    GROUP BY l.consumer_group, l.queue_id
)
SELECT f.consumer_group, f.queue_name, coalesce(f.members, 0) AS members,
       coalesce(f.partitions_with_lag, 0) AS partitions_with_lag, coalesce(f.total_lag, 0)::bigint AS total_lag,
       coalesce(floor(extract(epoch FROM now() - f.oldest_at)), 0)::bigint AS max_time_lag,
       g.subscription_mode, g.subscription_timestamp, g.created_at AS subscription_created_at,
       EXISTS (SELECT FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id
               WHERE q.name = f.queue_name) AS has_partitions
FROM (
    SELECT s.consumer_group, q.name::text AS queue_name, s.members, s.partitions_with_lag, s.total_lag, s.oldest_at
    FROM lags s
    JOIN queen.queues q ON q.id = s.queue_id
    UNION ALL
    -- Groups that only have a start so far, and no lag.
    SELECT DISTINCT m.consumer_group::text, m.queue_name::text, NULL::bigint, NULL::bigint, NULL::numeric,
           NULL::timestamptz
    FROM queen.consumer_groups_metadata m
    LEFT JOIN queen.queues q ON q.name = m.queue_name
    WHERE NOT EXISTS (SELECT FROM lags s WHERE s.queue_id = q.id AND s.consumer_group = m.consumer_group)
) f
LEFT JOIN queen.consumer_groups_metadata g
    ON g.queue_name = f.queue_name AND g.consumer_group = f.consumer_group AND g.partition_name = ''
ORDER BY f.consumer_group, f.queue_name;

-- name: list_streams
-- Spark streams of one group on one queue share one row, that of the last of them.
SELECT l.consumer_group, l.queue_name, count(*) AS members, max(l.offset_lag) AS total_lag,
       coalesce(max(floor(extract(epoch FROM now() - l.oldest_at))), 0)::bigint AS max_time_lag,
       max(l.updated_at) AS updated_at
FROM queen.stream_lags(NULL) l
GROUP BY l.consumer_group, l.queue_name
ORDER BY l.consumer_group, l.queue_name;

-- name: show_streams
SELECT l.queue_name, l.query_id, l.position::text, l.offset_lag,
       coalesce(floor(extract(epoch FROM now() - l.oldest_at)), 0)::bigint AS time_lag_seconds, l.updated_at
FROM queen.stream_lags($1) l
ORDER BY l.queue_name, l.query_id;

-- name: delete_streams
WITH removed AS (DELETE FROM queen.spark_positions WHERE consumer_group = $1 RETURNING 1)
SELECT count(*) FROM removed;

-- name: list_lagging
-- A row of a Spark stream is about a whole queue.
SELECT l.*
FROM (
    SELECT 'consumer' AS kind, l.consumer_group, q.name::text AS queue_name, p.name::text AS partition_name,
           l.partition_id::text, l.offset_lag,
           floor(extract(epoch FROM now() - l.oldest_at))::bigint AS time_lag_seconds,
           l.oldest_at, l.last_consumed_at
    FROM queen.group_lags(NULL) l
    JOIN queen.partitions p ON p.id = l.partition_id
    JOIN queen.queues q ON q.id = l.queue_id
    UNION ALL
    SELECT 'spark', l.consumer_group, l.queue_name, NULL, NULL, l.offset_lag,
           floor(extract(epoch FROM now() - l.oldest_at))::bigint, l.oldest_at, l.updated_at
    FROM queen.stream_lags(NULL) l
) l
WHERE l.oldest_at <= now() - make_interval(secs => $1)
ORDER BY l.oldest_at, l.consumer_group, l.partition_id
LIMIT $2;

-- name: show_group
SELECT q.name::text AS queue_name, p.name::text AS partition_name, l.last_consumed_at,
       coalesce(l.total_consumed, 0) AS total_consumed,
       l.offset_lag, coalesce(floor(extract(epoch FROM now() - l.oldest_at)), 0)::bigint AS time_lag_seconds,
       l.is_leased
FROM queen.group_lags($1) l
JOIN queen.partitions p ON p.id = l.partition_id
JOIN queen.queues q ON q.id = l.queue_id
ORDER BY q.name, p.name;

-- name: list_queues
SELECT q.id::text, q.name::text, q.namespace::text, q.task::text, q.created_at,
       coalesce(c.partitions, 0) AS partitions, coalesce(c.total, 0)::bigint AS total,
       coalesce(c.pending, 0)::bigint AS pending, coalesce(c.processing, 0)::bigint AS processing
FROM queen.queues q
LEFT JOIN (
    SELECT n.queue_id, count(*) AS partitions, sum(n.total) AS total, sum(n.pending) AS pending,
           sum(n.processing) AS processing
    FROM queen.partition_counts(NULL) n GROUP BY n.queue_id
) c ON c.queue_id = q.id
WHERE $1::text IS NULL OR strpos(lower(q.name), lower($1)) > 0
ORDER BY q.created_at DESC, q.name
LIMIT $2 OFFSET $3;

-- name: show_queue
SELECT q.id, q.name::text, q.namespace::text, q.task::text, q.created_at, json_build_object(
           'leaseTime', q.lease_time, 'retryLimit', q.retry_limit, 'retryDelay', q.retry_delay,
           'priority', q.priority, 'maxSize', q.max_size, 'ttl', q.ttl,
           'deadLetterQueue', q.dead_letter_queue, 'dlqAfterMaxRetries', q.dlq_after_max_retries,
           'delayedProcessing', q.delayed_processing, 'windowBuffer', q.window_buffer,
           'retentionSeconds', q.retention_seconds,
           'completedRetentionSeconds', q.completed_retention_seconds,
           'retentionEnabled', q.retention_enabled, 'encryptionEnabled', q.encryption_enabled,
           'maxWaitTimeSeconds', q.max_wait_time_seconds, 'onPoison', q.on_poison,
           'onFailedOperation', q.on_failed_operation,
           'archiveBeforeDelete', q.archive_before_delete, 'ackHistory', q.ack_history,
           'partitionIdleSeconds', q.partition_idle_seconds)::text AS options
FROM queen.queues q WHERE q.name = $1;

-- name: list_queue_partitions
SELECT p.id::text, p.name::text, p.created_at, n.total, n.pending, n.processing, n.completed, n.failed,
       n.dead_letter, o.created_at AS oldest_at, CASE WHEN n.total > 0 THEN l.last_message_created_at END AS newest_at
FROM queen.partition_counts($1) n
JOIN queen.partitions p ON p.id = n.partition_id
JOIN queen.partition_lookup l ON l.partition_id = n.partition_id
LEFT JOIN LATERAL (
    SELECT m.created_at FROM queen.messages m
    WHERE m.partition_id = l.partition_id AND m.seq >= l.first_seq
    ORDER BY m.seq LIMIT 1
) o ON true
ORDER BY p.name;

-- name: sum_queue_partitions
SELECT coalesce(sum(n.total), 0)::bigint AS total, coalesce(sum(n.pending), 0)::bigint AS pending,
       coalesce(sum(n.processing), 0)::bigint AS processing, coalesce(sum(n.completed), 0)::bigint AS completed,
       coalesce(sum(n.failed), 0)::bigint AS failed, coalesce(sum(n.dead_letter), 0)::bigint AS dead_letter
FROM queen.partition_counts($1) n;

-- name: list_namespaces
SELECT q.namespace::text AS name, count(DISTINCT q.id) AS queues, count(n.partition_id) AS partitions,
       coalesce(sum(n.total), 0)::bigint AS total, coalesce(sum(n.pending), 0)::bigint AS pending
FROM queen.queues q
LEFT JOIN queen.partition_counts(NULL) n ON n.queue_id = q.id
WHERE q.namespace <> ''
GROUP BY q.namespace ORDER BY q.namespace;

-- name: list_tasks
SELECT q.task::text AS name, count(DISTINCT q.id) AS queues, count(n.partition_id) AS partitions,
       coalesce(sum(n.total), 0)::bigint AS total, coalesce(sum(n.pending), 0)::bigint AS pending
FROM queen.queues q
LEFT JOIN queen.partition_counts(NULL) n ON n.queue_id = q.id
WHERE q.task <> ''
GROUP BY q.task ORDER BY q.task;

-- name: list_partitions
SELECT p.id::text, p.name::text, q.name::text AS queue, q.namespace::text, q.task::text, p.created_at,
       l.last_seq - l.first_seq + 1 AS total, l.last_message_created_at AS newest_at
FROM queen.queues q
CROSS JOIN LATERAL (
    -- No queue has to return more rows than the page needs.
    SELECT x.* FROM queen.partitions x WHERE x.queue_id = q.id ORDER BY x.name LIMIT $2::bigint + $3::bigint
) p
JOIN queen.partition_lookup l ON l.partition_id = p.id
WHERE $1::text IS NULL OR q.name = $1
ORDER BY q.name, p.name LIMIT $2 OFFSET $3;

-- name: move_cursor
SELECT queen.move_cursor($1, $2, $3, $4);
