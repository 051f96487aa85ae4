-- name: push_messages
SELECT message_ids, outcomes, positions
FROM queen.push_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17);

-- name: find_push_keys
SELECT key, digest, origin, message_ids::text[], outcomes, positions FROM queen.push_keys WHERE key = ANY ($1::uuid[]);

-- name: ensure_partitions
SELECT e.*, queen.partition_number(e.partition_id) AS number FROM queen.ensure_partitions($1, $2, $3) e;

-- name: find_partitions
SELECT u.queue_name, u.partition_name, p.id AS partition_id, q.id AS queue_id, q.namespace::text, q.task::text,
       q.encryption_enabled AS is_encrypted, queen.partition_number(p.id) AS number
FROM unnest($1::text[], $2::text[]) AS u (queue_name, partition_name)
JOIN queen.queues q ON q.name = u.queue_name
-- Compare both columns of the index, because PostgreSQL keeps a plan that it made while a queue was small.
CROSS JOIN LATERAL (
    SELECT x.id FROM queen.partitions x WHERE x.queue_id = q.id AND x.name = u.partition_name OFFSET 0
) p;

-- name: find_busy_partitions
SELECT queen.find_busy_partitions($1);

-- name: find_publishing
SELECT queen.find_publishing($1);

-- name: find_busy_cursors
SELECT partition_id, consumer_group FROM queen.find_busy_cursors($1, $2);

-- name: find_busy_leases
SELECT queen.find_busy_leases($1);

-- name: subscribe_groups
SELECT queen.subscribe_groups($1, $2, $3, $4);

-- name: find_queue_names
SELECT name::text FROM queen.queues
WHERE ($1::text IS NULL OR namespace = $1) AND ($2::text IS NULL OR task = $2);

-- name: pop_sm_resolve
SELECT pair, is_found, is_complete, partition_ids, held_ids, held_whys, next_due_ms, horizon
FROM queen.pop_sm_resolve($1, $2, $3, $4, $5, $6::text[]::xid8[], $7, $8, $9, $10, $11);

-- name: walk_partitions
SELECT pair, is_end, is_whole, partition_ids, held_ids, held_whys, next_due_ms, last_id
FROM queen.walk_partitions($1, $2, $3, $4, $5);

-- name: find_news
SELECT is_changed, partition_names, horizon FROM queen.find_news($1, $2::text[]::xid8[]);

-- name: has_pending_messages
SELECT queen.has_pending_messages($1, $2, $3, $4, $5, $6::text[]::xid8[], $7, $8);

-- name: pop_messages_batch
SELECT * FROM queen.pop_messages_batch($1, $2, $3, $4, $5, $6, $8, $7);

-- name: pop_sm_fetch
SELECT partition_id, message_count, messages, is_encrypted, partition_name, queue_name
FROM queen.pop_sm_fetch(ARRAY(
    SELECT (1, u.partition_id, u.consumer_group, 'granted', u.lease_id, u.after_seq, u.end_seq, u.attempts,
            NULL, NULL)::queen.pop_grant
    FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::bigint[], $5::bigint[], $6::integer[])
        AS u (partition_id, consumer_group, lease_id, after_seq, end_seq, attempts)));

-- name: pop_sm_release
SELECT count(*) FROM queen.pop_sm_release($1, $2, $3, $4, $5);

-- name: ack_messages
SELECT success, error, queue_name, partition_name, lease_released, dlq, has_more
FROM queen.ack_messages($1, $2, $3, $4, $5, $6, false, $7) ORDER BY ordinal;

-- name: ack_completed
SELECT places, queue_names, partition_names, are_released, have_more,
       rest_errors, rest_queue_names, rest_partition_names, rest_released, rest_more
FROM queen.ack_completed($1, $2, $3, $4, $5, $6);

-- name: renew_leases
SELECT renewed, was_known, expires_at FROM queen.renew_leases($1, $2, $3) ORDER BY ordinal;

-- name: commit_transaction
SELECT is_repeat, message_ids, outcomes, positions, is_dlq, freed_queues, freed_partitions
FROM queen.commit_transaction($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19);

-- name: notify
SELECT pg_notify($1, $2);

-- name: return_taken
SELECT queen.return_taken($1, $2, $3, $4);
