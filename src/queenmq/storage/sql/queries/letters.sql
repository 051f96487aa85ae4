-- name: list_dead_letters
SELECT d.message_id::text AS id, d.transaction_id::text, d.partition_id::text, q.name::text AS queue,
       p.name::text AS partition, d.consumer_group::text, d.error_message, d.retry_count,
       d.payload::text AS payload, d.is_encrypted, d.producer_sub, d.created_at, d.failed_at
FROM queen.dead_letter_queue d
JOIN queen.partitions p ON p.id = d.partition_id
JOIN queen.queues q ON q.id = d.queue_id
WHERE ($1::text IS NULL OR q.name = $1) AND ($2::text IS NULL OR d.consumer_group = $2)
  AND ($3::text IS NULL OR p.name = $3)
  AND ($4::timestamptz IS NULL OR d.failed_at >= $4) AND ($5::timestamptz IS NULL OR d.failed_at <= $5)
ORDER BY d.failed_at DESC, d.partition_id, d.consumer_group, d.seq DESC
LIMIT $6 OFFSET $7;

-- name: count_dead_letters
SELECT count(*)
FROM queen.dead_letter_queue d
JOIN queen.partitions p ON p.id = d.partition_id
JOIN queen.queues q ON q.id = d.queue_id
WHERE ($1::text IS NULL OR q.name = $1) AND ($2::text IS NULL OR d.consumer_group = $2)
  AND ($3::text IS NULL OR p.name = $3)
  AND ($4::timestamptz IS NULL OR d.failed_at >= $4) AND ($5::timestamptz IS NULL OR d.failed_at <= $5);

-- name: retry_dead_letters
SELECT queue_name, partition_name, partition_id::text, transaction_id, message_id, new_transaction_id,
       outcome, letters, has_more
FROM queen.retry_dead_letters($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: purge_dead_letters
WITH matching AS (
    SELECT d.id FROM queen.dead_letter_queue d
    JOIN queen.partitions p ON p.id = d.partition_id
    JOIN queen.queues q ON q.id = d.queue_id
    WHERE ($1::text IS NULL OR q.name = $1) AND ($2::text IS NULL OR d.consumer_group = $2)
      AND ($3::text IS NULL OR p.name = $3)
      AND ($4::timestamptz IS NULL OR d.failed_at >= $4) AND ($5::timestamptz IS NULL OR d.failed_at <= $5)
    ORDER BY d.failed_at, d.id
    LIMIT $6 + 1
), removed AS (
    DELETE FROM queen.dead_letter_queue WHERE id IN (
        SELECT d.id FROM queen.dead_letter_queue d
        WHERE d.id IN (SELECT m.id FROM matching m LIMIT $6)
        -- Waits for nobody: what is locked is being retried or goes with its message.
        FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT (SELECT count(*) FROM removed) AS purged,
       (SELECT count(*) FROM matching) > (SELECT count(*) FROM removed) AS has_more;
