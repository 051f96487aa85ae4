-- name: queues_of_partitions
SELECT p.id AS partition_id, q.name::text AS queue_name
FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id
WHERE p.id = ANY ($1::uuid[]);

-- name: queues_of_leases
SELECT DISTINCT u.id AS lease_id, q.name::text AS queue_name
FROM unnest($1::uuid[]) AS u (id)
CROSS JOIN LATERAL queen.find_lease(u.id) l
JOIN queen.partitions p ON p.id = l.partition_id
JOIN queen.queues q ON q.id = p.queue_id;

-- name: queue_of_stream
SELECT source_queue::text FROM queen_streams.queries WHERE id = $1;

-- name: queue_of_operation
SELECT queue_name::text FROM queen.operation_queue WHERE id = $1;
