-- name: claim_retention
-- One broker claims each pass: the first that asks.
INSERT INTO queen.system_state AS s (name, value) VALUES ('retention', '{}')
ON CONFLICT (name) DO UPDATE SET updated_at = now()
WHERE s.updated_at < now() - make_interval(secs => $1)
RETURNING true;

-- name: list_retention_queues
SELECT id FROM queen.queues
WHERE (retention_enabled AND (retention_seconds > 0 OR completed_retention_seconds > 0))
   OR max_wait_time_seconds > 0
ORDER BY name;

-- name: apply_retention
SELECT next_after, retention_messages, completed_messages, evicted_messages
FROM queen.apply_retention($1, $2, $3, $4);

-- name: sweep_dead_letters
WITH removed AS (
    DELETE FROM queen.dead_letter_queue WHERE id IN (
        SELECT d.id FROM queen.queues q
        JOIN queen.dead_letter_queue d ON d.queue_id = q.id
            AND d.failed_at < now() - make_interval(secs => q.retention_seconds)
        WHERE q.retention_enabled AND q.retention_seconds > 0
        LIMIT $1
        -- Waits for no lock, so the order of the rows does not matter.
        FOR UPDATE OF d SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM removed;

-- name: sweep_retention_history
DELETE FROM queen.retention_history WHERE bucket < now() - make_interval(secs => $1);

-- name: show_retention
SELECT date_bin(make_interval(mins => $3), h.bucket, 'epoch') AS bucket,
       sum(h.retention_messages)::bigint AS retention_messages,
       sum(h.completed_messages)::bigint AS completed_messages,
       sum(h.evicted_messages)::bigint AS evicted_messages, sum(h.events)::bigint AS events,
       sum(h.removed_partitions)::bigint AS partitions
FROM queen.retention_history h
WHERE h.bucket >= $1 AND h.bucket <= $2
  AND ($4::text IS NULL OR h.queue_id = (SELECT q.id FROM queen.queues q WHERE q.name = $4))
GROUP BY 1 ORDER BY 1;

-- name: claim_partition_removal
INSERT INTO queen.system_state AS s (name, value) VALUES ('partition-removal', '{}')
ON CONFLICT (name) DO UPDATE SET updated_at = now()
WHERE s.updated_at < now() - make_interval(secs => $1)
RETURNING true;

-- name: list_queues_with_idle_rule
SELECT id FROM queen.queues WHERE partition_idle_seconds > 0 ORDER BY name;

-- name: remove_idle_partitions
SELECT removed, next_after, is_held FROM queen.remove_idle_partitions($1, $2, $3, $4);
