-- name: settle_in
SELECT set_config('lock_timeout', $1, false);

-- name: count_stale
-- Count payloads of encrypted queues that are not encrypted with the current key, in both tables.
SELECT (SELECT count(*) FROM queen.messages m JOIN queen.queues q ON q.id = m.queue_id
        WHERE ($2::text IS NULL OR q.name = $2) AND (m.is_encrypted OR q.encryption_enabled)
          AND (NOT m.is_encrypted OR m.payload ->> 'keyId' IS DISTINCT FROM $1))
     + (SELECT count(*) FROM queen.dead_letter_queue d JOIN queen.queues q ON q.id = d.queue_id
        WHERE ($2::text IS NULL OR q.name = $2) AND (d.is_encrypted OR q.encryption_enabled)
          AND (NOT d.is_encrypted OR d.payload ->> 'keyId' IS DISTINCT FROM $1));

-- name: count_queued
-- Count queued pushes to encrypted queues that hold no payload of the current key. Their payloads are strings
-- inside JSON, so only the text shows it. They are stored as they are, and can be encrypted again only then.
SELECT count(*) FROM queen.operation_queue o JOIN queen.queues q ON q.id = o.queue_id
WHERE o.status IN ('pending', 'processing', 'failed') AND ($2::text IS NULL OR q.name = $2)
  AND (q.encryption_enabled OR strpos(o.payload::text, 'authTag') > 0) AND strpos(o.payload::text, $1) = 0;

-- name: list_spools
-- What brokers have on their disks, as they told last. An empty spool has no row.
SELECT s.value ->> 'host' AS host, s.value ->> 'directory' AS directory, (s.value ->> 'waiting')::bigint AS waiting,
       (s.value ->> 'aside')::bigint AS aside, s.updated_at AS told_at
FROM queen.system_state s WHERE s.name LIKE 'spool:%' ORDER BY 1, 2;

-- name: list_stale_messages
-- Return the next payloads after a place, at most this many and 16 MB.
SELECT s.partition_id, s.seq, s.queue, s.partition, s.transaction_id, s.is_encrypted, s.payload
FROM (
    SELECT m.partition_id, m.seq, q.name::text AS queue, p.name::text AS partition,
           coalesce(m.transaction_id, m.id::text) AS transaction_id, m.is_encrypted, m.payload::text AS payload,
           sum(octet_length(m.payload::text)) OVER (ORDER BY m.partition_id, m.seq)
               - octet_length(m.payload::text) AS bytes_before
    FROM (
        SELECT x.* FROM queen.messages x JOIN queen.queues y ON y.id = x.queue_id
        WHERE (x.partition_id, x.seq) > ($3::uuid, $4::bigint)
          AND ($2::text IS NULL OR y.name = $2) AND (x.is_encrypted OR y.encryption_enabled)
          AND (NOT x.is_encrypted OR x.payload ->> 'keyId' IS DISTINCT FROM $1)
        ORDER BY x.partition_id, x.seq
        LIMIT $5
    ) m
    JOIN queen.partitions p ON p.id = m.partition_id
    JOIN queen.queues q ON q.id = m.queue_id
) s
WHERE s.bytes_before < 16 * 1024 * 1024
ORDER BY s.partition_id, s.seq;

-- name: list_stale_letters
SELECT d.id, d.seq, q.name::text AS queue, p.name::text AS partition, d.transaction_id::text, d.is_encrypted,
       d.payload::text AS payload
FROM queen.dead_letter_queue d
JOIN queen.partitions p ON p.id = d.partition_id
JOIN queen.queues q ON q.id = d.queue_id
WHERE d.id > $3::uuid AND $4::bigint IS NOT NULL
  AND ($2::text IS NULL OR q.name = $2) AND (d.is_encrypted OR q.encryption_enabled)
  AND (NOT d.is_encrypted OR d.payload ->> 'keyId' IS DISTINCT FROM $1)
ORDER BY d.id
LIMIT $5;

-- name: replace_messages
-- Update only unchanged rows. Another session may have removed or replaced them.
UPDATE queen.messages m SET payload = u.new_payload::json, is_encrypted = true
FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[]) AS u (partition_id, seq, old_payload, new_payload)
WHERE m.partition_id = u.partition_id AND m.seq = u.seq AND m.payload::text = u.old_payload;

-- name: replace_letters
UPDATE queen.dead_letter_queue d SET payload = u.new_payload::json, is_encrypted = true
FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[]) AS u (id, seq, old_payload, new_payload)
WHERE d.id = u.id AND d.payload::text = u.old_payload;
