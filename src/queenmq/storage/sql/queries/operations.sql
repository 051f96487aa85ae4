-- name: claim_operations
-- The function sees operations that were queued after this statement took its snapshot. An inner join would drop them,
-- claimed, until their timeout. They have waited no longer than this statement runs.
SELECT c.id, c.partition_id, c.queue_name, c.partition_name, c.retry_count, c.max_retries, c.was_stuck,
       coalesce(extract(epoch FROM clock_timestamp() - o.created_at), 0)::double precision
FROM queen.claim_operations($1, $2, $3, $4) c LEFT JOIN queen.operation_queue o ON o.id = c.id
ORDER BY c.partition_id, c.seq;

-- name: run_operations
SELECT queen.run_operations($1, $2, $3);

-- name: release_operations
SELECT queen.release_operations($1, $2, $3, $4, $5, $6);

-- name: settle_operation
SELECT queen.settle_operation($1, $2);

-- name: failed_operations
SELECT id FROM queen.operation_queue WHERE status = 'failed' ORDER BY created_at, partition_id, seq LIMIT $1;

-- name: count_waiting_operations
SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::double precision,
       (SELECT count(*) FROM queen.operation_queue WHERE status = 'failed')
FROM queen.operation_queue o
WHERE o.is_blocking
  -- Operations behind a failed one wait for an operator, not for the broker.
  AND NOT EXISTS (SELECT FROM queen.operation_queue f
                  WHERE f.partition_id = o.partition_id AND f.is_blocking AND f.status = 'failed');

-- name: operation_stats
SELECT status, count(*) AS operations, sum(item_count)::bigint AS items, sum(estimated_size)::bigint AS bytes,
       extract(epoch FROM clock_timestamp() - min(created_at))::double precision AS oldest_s
FROM queen.operation_queue GROUP BY status;

-- name: find_operation
SELECT id, operation_type, queue_name::text, partition_name::text, seq, priority, item_count, estimated_size,
       reason, status, is_blocking, created_at, processing_started_at, processed_at, claimed_by_worker,
       timeout_seconds, retry_count, max_retries, error_message, last_error_at, result::text
FROM queen.operation_queue WHERE id = $1;

-- name: list_operations
SELECT id, operation_type, queue_name::text, partition_name::text, seq, priority, item_count, estimated_size,
       reason, status, is_blocking, created_at, processing_started_at, processed_at, claimed_by_worker,
       timeout_seconds, retry_count, max_retries, error_message, last_error_at, NULL AS result
FROM queen.operation_queue
WHERE ($1::text IS NULL OR status = $1) AND ($2::text IS NULL OR queue_name = $2)
ORDER BY created_at DESC, id DESC LIMIT $3 OFFSET $4;

-- name: count_operations
SELECT count(*) FROM queen.operation_queue
WHERE ($1::text IS NULL OR status = $1) AND ($2::text IS NULL OR queue_name = $2);

-- name: sweep_operations
WITH removed AS (
    DELETE FROM queen.operation_queue
    WHERE id IN (SELECT o.id FROM queen.operation_queue o
                 WHERE (o.status IN ('completed', 'discarded')
                        AND o.processed_at < clock_timestamp() - make_interval(secs => $1))
                    -- Of a deleted queue, while another session held the row.
                    OR NOT EXISTS (SELECT FROM queen.partition_lookup l
                                   WHERE l.partition_id = o.partition_id)
                 LIMIT $2
                 -- Waits for no lock, so the order of the rows does not matter.
                 FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM removed;

-- name: read_system_state
SELECT name, value::text FROM queen.system_state;

-- name: write_system_state
INSERT INTO queen.system_state AS s (name, value) VALUES ($1, $2::text::json)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = now();

-- name: remove_system_state
DELETE FROM queen.system_state WHERE name = $1;

-- name: commit_nothing
-- Write a record that is never read, so that the commit waits for the log and for synchronous standbys as commits
-- of calls do.
SELECT pg_logical_emit_message(true, 'queen', '');

-- name: probe
-- Write, because a read-only server is of no use.
UPDATE queen.system_state SET updated_at = now() WHERE name = 'database_id';
