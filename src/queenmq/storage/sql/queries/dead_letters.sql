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
  AND ($6::text IS NULL OR starts_with(coalesce(d.error_message, ''), $6))
ORDER BY d.failed_at DESC, d.partition_id, d.consumer_group, d.seq DESC
LIMIT $7 OFFSET $8;

-- name: count_dead_letters
SELECT count(*)
FROM queen.dead_letter_queue d
JOIN queen.partitions p ON p.id = d.partition_id
JOIN queen.queues q ON q.id = d.queue_id
WHERE ($1::text IS NULL OR q.name = $1) AND ($2::text IS NULL OR d.consumer_group = $2)
  AND ($3::text IS NULL OR p.name = $3)
  AND ($4::timestamptz IS NULL OR d.failed_at >= $4) AND ($5::timestamptz IS NULL OR d.failed_at <= $5)
  AND ($6::text IS NULL OR starts_with(coalesce(d.error_message, ''), $6));

-- name: retry_dead_letters
SELECT queue_name, partition_name, partition_id::text, transaction_id, message_id, new_transaction_id,
       outcome, letters, has_more
FROM queen.retry_dead_letters($1, $2, $3, $4, $5, $7, $8, $9, $10, $11, $6, $12, $13, $14, $15);

-- name: list_sealed_letters
-- Return encrypted dead letters whose transaction id is taken, among those that retry_dead_letters will read.
WITH chosen AS (
    SELECT d.id FROM queen.dead_letter_queue d
    JOIN queen.partitions p ON p.id = d.partition_id
    JOIN queen.queues q ON q.id = d.queue_id
    WHERE ($1::text IS NULL OR q.name = $1) AND ($2::text IS NULL OR d.consumer_group = $2)
      AND ($3::text IS NULL OR p.name = $3)
      AND ($4::timestamptz IS NULL OR d.failed_at >= $4) AND ($5::timestamptz IS NULL OR d.failed_at <= $5)
      AND ($6::text IS NULL OR starts_with(coalesce(d.error_message, ''), $6))
      AND ($7::uuid IS NULL OR d.partition_id = $7) AND ($8::text IS NULL OR d.transaction_id = $8)
    ORDER BY d.failed_at, d.partition_id, d.seq
    LIMIT $9
), sealed AS (
    SELECT DISTINCT ON (d.partition_id, d.seq) d.partition_id, d.seq, q.name::text AS queue,
           p.name::text AS partition, d.transaction_id::text, d.payload::text AS payload
    FROM chosen c
    JOIN queen.dead_letter_queue d ON d.id = c.id
    JOIN queen.partitions p ON p.id = d.partition_id
    JOIN queen.queues q ON q.id = d.queue_id
    WHERE d.is_encrypted
      AND (queen.find_message(d.partition_id, d.transaction_id) IS NOT NULL
           OR EXISTS (SELECT FROM queen.dead_letter_queue o
                      WHERE o.partition_id = d.partition_id AND o.transaction_id = d.transaction_id
                        AND o.seq <> d.seq))
    ORDER BY d.partition_id, d.seq
), sized AS (
    SELECT s.*, sum(octet_length(s.payload)) OVER (ORDER BY s.partition_id, s.seq) AS bytes,
           row_number() OVER (ORDER BY s.partition_id, s.seq) AS n
    FROM sealed s
)
SELECT partition_id, seq, queue, partition, transaction_id, payload FROM sized
-- Return as many as one call takes.
WHERE bytes <= 32 * 1024 * 1024 OR n = 1;

-- name: purge_dead_letters
WITH matching AS (
    SELECT d.id FROM queen.dead_letter_queue d
    JOIN queen.partitions p ON p.id = d.partition_id
    JOIN queen.queues q ON q.id = d.queue_id
    WHERE ($1::text IS NULL OR q.name = $1) AND ($2::text IS NULL OR d.consumer_group = $2)
      AND ($3::text IS NULL OR p.name = $3)
      AND ($4::timestamptz IS NULL OR d.failed_at >= $4) AND ($5::timestamptz IS NULL OR d.failed_at <= $5)
      AND ($6::text IS NULL OR starts_with(coalesce(d.error_message, ''), $6))
    ORDER BY d.failed_at, d.id
    LIMIT $7 + 1
), removed AS (
    DELETE FROM queen.dead_letter_queue WHERE id IN (
        SELECT d.id FROM queen.dead_letter_queue d
        WHERE d.id IN (SELECT m.id FROM matching m LIMIT $7)
        -- Do not wait for locks: another session retries a locked dead letter or removes it with its message.
        FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT (SELECT count(*) FROM removed) AS purged,
       (SELECT count(*) FROM matching) > (SELECT count(*) FROM removed) AS has_more;
