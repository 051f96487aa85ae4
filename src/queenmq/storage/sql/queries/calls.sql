-- name: push_messages
SELECT message_ids, outcomes FROM queen.push_messages($1, $2, $3, $4, $5, $6, $7, $8);

-- name: ensure_partitions
SELECT * FROM queen.ensure_partitions($1, $2, $3);

-- name: find_partitions
SELECT u.queue_name, u.partition_name, p.id AS partition_id, q.id AS queue_id, q.namespace::text, q.task::text,
       q.encryption_enabled AS is_encrypted
FROM unnest($1::text[], $2::text[]) AS u (queue_name, partition_name)
JOIN queen.queues q ON q.name = u.queue_name
JOIN queen.partitions p ON p.queue_id = q.id AND p.name = u.partition_name;

-- name: find_busy_partitions
SELECT queen.find_busy_partitions($1);

-- name: subscribe_groups
SELECT queen.subscribe_groups($1, $2, $3, $4);

-- name: find_queue_names
SELECT name::text FROM queen.queues
WHERE ($1::text IS NULL OR namespace = $1) AND ($2::text IS NULL OR task = $2);

-- name: pop_sm_resolve
SELECT partition_ids, next_due_ms FROM queen.pop_sm_resolve($1, $2, $3, $4, $5) ORDER BY pair;

-- name: pop_messages_batch
SELECT * FROM queen.pop_messages_batch($1, $2, $3, $4, $5, $6);

-- name: pop_sm_release
SELECT count(*) FROM queen.pop_sm_release($1, $2, $3, NULL);

-- name: ack_messages
SELECT success, error, queue_name, partition_name, lease_released, dlq, has_more
FROM queen.ack_messages($1, $2, $3, $4, $5, $6, false, $7) ORDER BY ordinal;

-- name: renew_lease
SELECT renewed, was_known, expires_at FROM queen.renew_lease($1, $2);

-- name: run_transaction
SELECT message_ids, is_dlq, freed_queues, freed_partitions
FROM queen.run_transaction($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- name: notify
SELECT pg_notify($1, $2);
