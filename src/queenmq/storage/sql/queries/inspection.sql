-- name: list_messages
SELECT id::text, transaction_id, partition_id::text, queue_name, partition_name, namespace, task, priority,
       trace_id::text, producer_sub, created_at, status, queue_status, passed_groups, named_groups,
       lease_expires_at, is_cut, queen.seq_of_message_id(partition_id, id::text) AS seq
FROM queen.list_messages($1, $2, $3, $4, $5, $6, $7, $10, $11, $12, $8, $9);

-- name: show_message
-- Return the message from its partition or, if it has left that, from its latest dead letter.
WITH found AS (
    SELECT m.partition_id, m.seq, m.id, coalesce(m.transaction_id, m.id::text) AS transaction_id, m.trace_id,
           m.producer_sub, m.created_at, m.payload, m.is_encrypted
    FROM queen.messages m
    WHERE m.partition_id = $1 AND m.seq = queen.find_message($1, $2)
    UNION ALL
    (SELECT d.partition_id, d.seq, d.message_id, d.transaction_id, d.trace_id, d.producer_sub, d.created_at,
            d.payload, d.is_encrypted
     FROM queen.dead_letter_queue d
     WHERE d.partition_id = $1 AND d.transaction_id = $2 AND queen.find_message($1, $2) IS NULL
     ORDER BY d.seq DESC LIMIT 1)
)
SELECT f.id::text, f.transaction_id, f.partition_id::text, q.name::text AS queue_name,
       p.name::text AS partition_name, q.namespace::text, q.task::text, q.priority, f.trace_id::text,
       f.producer_sub, f.created_at, s.status, s.queue_status, s.passed_groups, s.named_groups,
       s.lease_expires_at, f.payload::text AS payload, f.is_encrypted, q.lease_time, q.retry_limit, q.retry_delay,
       q.ttl, d.error_message, coalesce(d.retry_count, c.retry_count, 0) AS retry_count, g.names AS group_names,
       g.have_passed, g.leased_until, f.seq
FROM found f
JOIN queen.partitions p ON p.id = f.partition_id
JOIN queen.queues q ON q.id = p.queue_id
CROSS JOIN LATERAL queen.message_states(ARRAY[f.partition_id], ARRAY[f.seq]) s
LEFT JOIN LATERAL (
    SELECT x.error_message, x.retry_count FROM queen.dead_letter_queue x
    WHERE x.partition_id = f.partition_id AND x.seq = f.seq ORDER BY x.failed_at DESC LIMIT 1
) d ON true
LEFT JOIN LATERAL (
    SELECT max(x.retry_count) AS retry_count FROM queen.partition_consumers x
    WHERE x.partition_id = f.partition_id AND x.retry_seq = f.seq
) c ON true
CROSS JOIN LATERAL (
    SELECT array_agg(x.consumer_group ORDER BY x.consumer_group) AS names,
           array_agg(x.has_passed ORDER BY x.consumer_group) AS have_passed,
           array_agg(x.leased_until ORDER BY x.consumer_group) AS leased_until
    FROM queen.message_groups(ARRAY[f.partition_id], ARRAY[f.seq]) x
) g;

-- name: queue_facts
SELECT queen.queue_facts($1, $2, $3, $4)::text;

-- name: delete_message
SELECT queen.delete_message($1, $2, $3);

-- name: bury_message
SELECT queue_name, consumer_groups FROM queen.bury_message($1, $2, $3, $4);
