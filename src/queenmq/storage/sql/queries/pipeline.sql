-- Results of Spark jobs, for the API. Arguments of the tables: run, queue, group, from, to (NULL for all), limit,
-- offset. A table without groups or times ignores them and returns the rows of the whole run.

-- name: list_runs
SELECT id::text, scope::text, from_time, to_time, bucket_seconds, messages, finished_at
FROM queen.analytics_runs
ORDER BY finished_at DESC, id LIMIT $1 OFFSET $2;

-- name: find_run
-- Return the named run, or the newest.
SELECT id::text, scope::text, from_time, to_time, bucket_seconds, messages, finished_at
FROM queen.analytics_runs
WHERE $1::uuid IS NULL OR id = $1
ORDER BY finished_at DESC, id LIMIT 1;

-- name: timeline
SELECT queue::text, consumer_group::text, bucket_at, pushed, bytes, consumed, backlog, latency_p50_ms,
       latency_p95_ms, latency_p99_ms, retries, dead_letters
FROM queen.analytics_timeline
WHERE run_id = $1 AND ($2::text IS NULL OR queue = $2) AND ($3::text IS NULL OR consumer_group = $3)
  AND ($4::timestamptz IS NULL OR bucket_at >= $4) AND ($5::timestamptz IS NULL OR bucket_at < $5)
ORDER BY queue, bucket_at, consumer_group NULLS FIRST LIMIT $6 OFFSET $7;

-- name: partitions
SELECT queue::text, partition::text, consumer_group::text, bucket_at, pushed, bytes, consumed, backlog,
       latency_p50_ms, latency_p95_ms, latency_p99_ms, retries, dead_letters
FROM queen.analytics_partitions
WHERE run_id = $1 AND ($2::text IS NULL OR queue = $2) AND ($3::text IS NULL OR consumer_group = $3)
  AND ($4::timestamptz IS NULL OR bucket_at >= $4) AND ($5::timestamptz IS NULL OR bucket_at < $5)
ORDER BY queue, bucket_at, partition, consumer_group NULLS FIRST LIMIT $6 OFFSET $7;

-- name: hottest
SELECT queue::text, rank, partition::text, pushed, bytes, share
FROM queen.analytics_hottest
WHERE run_id = $1 AND ($2::text IS NULL OR queue = $2)
  AND num_nonnulls($3::text, $4::timestamptz, $5::timestamptz) >= 0
ORDER BY queue, rank LIMIT $6 OFFSET $7;

-- name: queues
SELECT queue::text, keeps_history, partitions, pushed, bytes, max_by_mean, gini, payload_p50, payload_p95,
       payload_p99, payload_max
FROM queen.analytics_queues
WHERE run_id = $1 AND ($2::text IS NULL OR queue = $2)
  AND num_nonnulls($3::text, $4::timestamptz, $5::timestamptz) >= 0
ORDER BY queue LIMIT $6 OFFSET $7;

-- name: groups
SELECT queue::text, consumer_group::text, backlog_now, consumed, retries, dead_letters, measured, latency_p50_ms,
       latency_p95_ms, latency_p99_ms
FROM queen.analytics_groups
WHERE run_id = $1 AND ($2::text IS NULL OR queue = $2) AND ($3::text IS NULL OR consumer_group = $3)
  AND num_nonnulls($4::timestamptz, $5::timestamptz) >= 0
ORDER BY queue, consumer_group LIMIT $6 OFFSET $7;

-- name: dead_letters
SELECT queue::text, consumer_group::text, error, letters, first_at, last_at
FROM queen.analytics_dead_letters
WHERE run_id = $1 AND ($2::text IS NULL OR queue = $2) AND ($3::text IS NULL OR consumer_group = $3)
  AND ($4::timestamptz IS NULL OR last_at >= $4) AND ($5::timestamptz IS NULL OR first_at < $5)
ORDER BY queue, letters DESC, error, consumer_group LIMIT $6 OFFSET $7;

-- name: producers
SELECT queue::text, producer, rank, pushed, bytes
FROM queen.analytics_producers
WHERE run_id = $1 AND ($2::text IS NULL OR queue = $2)
  AND num_nonnulls($3::text, $4::timestamptz, $5::timestamptz) >= 0
ORDER BY queue, rank LIMIT $6 OFFSET $7;

-- name: payload_sizes
SELECT queue::text, up_to_bytes, messages, bytes
FROM queen.analytics_payload_sizes
WHERE run_id = $1 AND ($2::text IS NULL OR queue = $2)
  AND num_nonnulls($3::text, $4::timestamptz, $5::timestamptz) >= 0
ORDER BY queue, up_to_bytes LIMIT $6 OFFSET $7;

-- name: list_job_runs
-- Return runs of one job, or with NULL of all, newest first. A run without a sign of life for five minutes was
-- killed.
SELECT r.id::text, r.job::text, r.options::text, r.started_at, r.finished_at,
       CASE WHEN r.outcome = 'running' AND r.seen_at < now() - interval '5 minutes' THEN 'lost' ELSE r.outcome END
           AS outcome,
       r.figures::text, r.error
FROM queen.pipeline_runs r
WHERE $1::text IS NULL OR r.job = $1
ORDER BY r.started_at DESC, r.id LIMIT $2 OFFSET $3;

-- name: show_job_run
SELECT r.id::text, r.job::text, r.options::text, r.started_at, r.finished_at,
       CASE WHEN r.outcome = 'running' AND r.seen_at < now() - interval '5 minutes' THEN 'lost' ELSE r.outcome END
           AS outcome,
       r.figures::text, r.tables::text, r.error
FROM queen.pipeline_runs r WHERE r.id = $1;

-- name: list_archived
-- The oldest message from the position on is the first one that is not in the lake.
SELECT q.name::text AS queue, a.lake::text AS lake, a.location, a.updated_at, w.created_at AS waiting_since
FROM queen.archive_positions a
JOIN queen.queues q ON q.id = a.queue_id
LEFT JOIN LATERAL (
    SELECT m.created_at FROM queen.messages m
    WHERE m.queue_id = a.queue_id AND m.xid >= a.xid
    ORDER BY m.xid LIMIT 1
) w ON true
ORDER BY q.name, a.location, a.lake
LIMIT 1000;

-- name: list_archived_days
-- Days are those of UTC. A day counts as archived for a queue once the oldest message that is not in a lake is
-- younger than the day, because later pushes cannot belong to it. The query reads hours as far as they have been
-- rolled up.
WITH rolled AS (
    SELECT coalesce(max(h.at) + interval '1 hour', 'epoch') AS until
    FROM queen.history_workers h WHERE h.step_minutes = 60
), pushed AS (
    SELECT h.queue, (h.at AT TIME ZONE 'UTC')::date AS day, sum(h.push_messages) AS messages
    FROM queen.history_queues h CROSS JOIN rolled r
    WHERE (h.step_minutes = 60 AND h.at < r.until) OR (h.step_minutes = 1 AND h.at >= r.until)
    GROUP BY 1, 2
), reached AS (
    SELECT q.name AS queue, max(coalesce(w.created_at, a.updated_at)) AS until
    FROM queen.archive_positions a
    JOIN queen.queues q ON q.id = a.queue_id
    LEFT JOIN LATERAL (
        SELECT m.created_at FROM queen.messages m
        WHERE m.queue_id = a.queue_id AND m.xid >= a.xid
        ORDER BY m.xid LIMIT 1
    ) w ON true
    GROUP BY 1
)
SELECT p.day, sum(p.messages)::bigint AS pushed,
       coalesce(sum(p.messages) FILTER (WHERE (p.day + 1)::timestamp AT TIME ZONE 'UTC' <= r.until), 0)::bigint AS archived
FROM pushed p LEFT JOIN reached r ON r.queue = p.queue
WHERE p.messages > 0
GROUP BY p.day
ORDER BY p.day DESC LIMIT 366;
