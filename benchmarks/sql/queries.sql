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
