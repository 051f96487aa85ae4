-- What the experiments ask of the database beside Queen's own calls.

-- name: ensure_partitions
SELECT queue_name, partition_name, partition_id FROM queen.ensure_partitions($1, $2, NULL);

-- name: push_evenly
-- $1 distinct partitions in ascending order, $2 messages for each of them, $3 the payload of all
SELECT outcomes
FROM queen.push_messages(
    $1::uuid[],
    ARRAY(SELECT p FROM generate_series(1, cardinality($1::uuid[])) p, generate_series(1, $2::integer) n),
    NULL, NULL,
    array_fill($3::text, ARRAY[cardinality($1::uuid[]) * $2::integer]),
    NULL, NULL, ARRAY[cardinality($1::uuid[]) * $2::integer], NULL, 0, false, false, NULL);

-- name: fill
-- $1 a queue, $2 messages for each of its partitions; the trigger moves the lookup rows
INSERT INTO queen.messages (partition_id, seq, id, queue_id, created_at, payload)
SELECT l.partition_id, n.seq,
       queen.message_id(queen.message_id_prefix(l.partition_id, clock_timestamp()), n.seq), l.queue_id,
       clock_timestamp(),
       json_build_object('customer', 'c-' || n.seq % 100, 'order', n.seq, 'amount', n.seq % 1000 / 10.0,
                         'note', repeat('x', 130))
FROM queen.partition_lookup l
JOIN queen.queues q ON q.id = l.queue_id
CROSS JOIN LATERAL (SELECT l.last_seq + i AS seq FROM generate_series(1, $2::integer) AS s (i)) n
WHERE q.name = $1;

-- name: settle
VACUUM (ANALYZE);

-- name: release_leases
UPDATE queen.partition_consumers SET lease_id = NULL, lease_expires_at = NULL;

-- name: pop
SELECT * FROM queen.pop_messages_batch($1, $2, $3, $4, $5, $6);

-- name: lease
SELECT g FROM queen.pop_sm_lease($1, $2, $3, $4, $5, $6) g;

-- name: fetch
SELECT message_count, messages FROM queen.pop_sm_fetch($1);

-- name: pop_one_by_one
SELECT message_count, messages FROM bench.pop_one_by_one($1, $2, $3, $4, $5);

-- name: count_statements
CREATE EXTENSION pg_stat_statements;

-- name: statements
-- Those of this database but not those of whoever counts; a function is one, whatever it runs inside.
SELECT coalesce(sum(calls), 0)::bigint AS calls, coalesce(sum(total_exec_time), 0) AS busy_ms
FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND query NOT LIKE '%pg\_stat\_statements%';

-- name: lock_waits
-- Sessions that wait for a lock right now. Whoever waits for a row holds or wants the lock of its tuple.
SELECT left(a.query, 80) AS query, a.wait_event,
       EXISTS (SELECT FROM pg_locks l
               WHERE l.pid = a.pid
                 AND l.relation = 'queen.partition_lookup'::regclass
                 AND (l.locktype = 'tuple' OR NOT l.granted)) AS is_lookup
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.wait_event_type = 'Lock';

-- name: make_targets
-- What JDBC appends to: a bare table, and one with the columns and indexes of queen.messages.
CREATE SCHEMA bench
    CREATE TABLE plain (queue text, partition text, payload text)
    CREATE TABLE indexed (LIKE queen.messages INCLUDING DEFAULTS INCLUDING INDEXES);

-- name: empty_targets
-- A checkpoint before each turn: after one, the first write to a page costs more.
TRUNCATE bench.plain, bench.indexed;

-- name: checkpoint
CHECKPOINT;

-- name: count_messages
SELECT count(*) FROM queen.messages m JOIN queen.queues q ON q.id = m.queue_id WHERE q.name = $1;

-- name: read_messages
-- What the data source reads, as others would: all columns by one statement, a condition for each task.
SELECT q.name AS queue, q.namespace AS namespace, q.task AS task, p.name AS partition,
       m.partition_id AS partition_id, m.seq AS seq, m.id AS message_id,
       coalesce(m.transaction_id, m.id::text) AS transaction_id, m.trace_id AS trace_id,
       m.payload AS payload, m.created_at AS created_at, m.producer_sub AS producer_sub,
       m.is_encrypted AS is_encrypted
FROM queen.messages m
JOIN queen.partitions p ON p.id = m.partition_id
JOIN queen.queues q ON q.id = m.queue_id
WHERE {condition}
