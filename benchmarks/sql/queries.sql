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
-- $1 a queue, $2 messages for each of its partitions, $3 their age; the trigger moves the lookup rows. Notes are
-- digests: files of nothing but one letter would be far smaller than those of anybody's messages.
INSERT INTO queen.messages (partition_id, seq, id, queue_id, created_at, payload)
SELECT l.partition_id, n.seq,
       queen.message_id(queen.id_prefix(l.number, clock_timestamp() - $3::interval), n.seq),
       l.queue_id, clock_timestamp() - $3::interval,
       json_build_object('customer', 'c-' || n.seq % 100, 'order', n.seq, 'amount', n.seq % 1000 / 10.0,
                         'note', n.note)
FROM queen.partition_lookup l
JOIN queen.queues q ON q.id = l.queue_id
CROSS JOIN LATERAL (
    SELECT l.last_seq + s.i AS seq,
           md5('a' || d.key) || md5('b' || d.key) || md5('c' || d.key) || md5('d' || d.key) AS note
    FROM generate_series(1, $2::integer) AS s (i)
    CROSS JOIN LATERAL (SELECT l.partition_id::text || l.last_seq + s.i AS key) d
) n
WHERE q.name = $1;

-- name: consume
-- $1 a queue, $2 messages of a step, $3 the last number of each partition that group g has passed. A step is taken
-- up to a minute after its last message was pushed.
WITH queue AS (
    UPDATE queen.queues SET ack_history = true WHERE name = $1 RETURNING id
), steps AS (
    INSERT INTO queen.ack_history (queue_id, passed_at, partition_id, consumer_group, first_seq, last_seq, cause,
                                   completed, dead_lettered, retries)
    SELECT m.queue_id, m.created_at + make_interval(secs => 1 + abs(hashtext(m.id::text)::bigint) % 59),
           m.partition_id, 'g', m.seq - $2::integer + 1, m.seq, 'ack', $2::integer, 0, 0
    FROM queen.messages m
    JOIN queue q ON q.id = m.queue_id
    WHERE m.seq % $2::integer = 0 AND m.seq <= $3::bigint
)
INSERT INTO queen.partition_consumers (partition_id, consumer_group, queue_id, cursor_seq)
SELECT l.partition_id, 'g', l.queue_id, $3::bigint
FROM queen.partition_lookup l
JOIN queue q ON q.id = l.queue_id;

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
-- Those of this database, without those of the counting session. A function counts as one.
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
-- All sides begin with empty tables and indexes; ours also with a queue of its own. And with a checkpoint: after
-- one, the first write to a page costs more.
TRUNCATE bench.plain, bench.indexed, queen.messages;

-- name: checkpoint
CHECKPOINT;

-- name: count_messages
SELECT count(*) FROM queen.messages m JOIN queen.queues q ON q.id = m.queue_id WHERE q.name = $1;

-- name: forget_archive
TRUNCATE queen.archive_marks, queen.archive_positions;

-- name: marked
-- Messages that are marked as archived, of a queue that has lost none.
SELECT coalesce(sum(archived_seq), 0)::bigint FROM queen.archive_marks;

-- name: forget_analytics
DELETE FROM queen.analytics_runs;

-- name: analysed
-- What the only run says that groups have consumed, and of how many messages it knows how long they took.
SELECT coalesce(sum(g.consumed), 0)::bigint AS consumed, coalesce(sum(g.measured), 0)::bigint AS measured
FROM queen.analytics_groups g;

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

-- name: lease_lists
SELECT count(*) AS rows, pg_total_relation_size('queen.lease_partitions') AS bytes FROM queen.lease_partitions;

-- name: written
-- How much was written to the log so far, and how many cursors there are.
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS bytes,
       (SELECT count(*) FROM queen.partition_consumers) AS cursors;

-- name: sqlite_spool_table
CREATE TABLE records (id INTEGER PRIMARY KEY, body BLOB NOT NULL);

-- name: sqlite_spool_append
INSERT INTO records (body) VALUES (?);

-- name: sqlite_spool_read
SELECT id, body FROM records ORDER BY id LIMIT ?;

-- name: sqlite_spool_advance
DELETE FROM records WHERE id <= ?;

-- name: make_many
-- $1 a queue, $2 and $3 the first and last number of its partitions; a cursor of group g in each.
SELECT queen.create_cursors(array_agg(e.partition_id), array_agg('g'::text), false)
FROM queen.ensure_partitions(
    array_fill($1::text, ARRAY[$3::integer - $2::integer + 1]),
    ARRAY(SELECT 'p' || n FROM generate_series($2::integer, $3::integer) n), NULL) e;

-- name: make_group
-- $1 a queue, $2 a group that has visited every $3rd partition. In two of a hundred it holds a lease, in two others it
-- is blocked. Elsewhere it has left none, one or two messages.
INSERT INTO queen.partition_consumers (partition_id, consumer_group, queue_id, cursor_seq, last_consumed_at, lease_id,
                                       lease_expires_at, lease_end_seq, blocked_seq, total_consumed)
SELECT l.partition_id, $2::text, l.queue_id,
       CASE WHEN v.n % 100 < 4 THEN l.last_seq - 1 ELSE greatest(0, l.last_seq - v.n % 3) END,
       now() - make_interval(secs => v.n % 86400),
       CASE WHEN v.n % 100 < 2 THEN gen_random_uuid() END,
       CASE WHEN v.n % 100 < 2 THEN now() + interval '1 hour' END,
       CASE WHEN v.n % 100 < 2 THEN l.last_seq END,
       CASE WHEN v.n % 100 IN (2, 3) THEN l.last_seq END,
       l.last_seq
FROM queen.queues q
JOIN queen.partition_lookup l ON l.queue_id = q.id
-- A number of its own for each partition, in no order.
CROSS JOIN LATERAL (SELECT abs(hashtext(l.partition_id::text)::bigint) AS n) v
WHERE q.name = $1 AND v.n / 100 % $3::integer = 0;

-- name: block_poison
UPDATE queen.queues SET on_poison = 'block' WHERE name = $1;

-- name: blocks
-- Pages that statements of this database have read, without those of the counting session.
SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND query NOT LIKE '%pg\_stat\_statements%';

-- name: let_rest
-- $1 a queue: every second partition was made long ago, and has been idle since.
WITH old AS (
    UPDATE queen.partitions p SET created_at = 'epoch'
    FROM queen.queues q WHERE q.id = p.queue_id AND q.name = $1 AND right(p.name, 1) IN ('0', '2', '4', '6', '8')
    RETURNING p.id
)
UPDATE queen.partition_consumers c SET created_at = 'epoch' FROM old WHERE c.partition_id = old.id;

-- name: remove_idle
SELECT r.removed, r.next_after FROM queen.queues q, queen.remove_idle_partitions(q.id, $2, 5000, 200) r
WHERE q.name = $1;

-- name: partition_bytes
SELECT sum(pg_total_relation_size(c))::bigint AS bytes
FROM unnest(ARRAY['queen.partitions', 'queen.partition_lookup', 'queen.partition_consumers']::regclass[]) c;

-- name: dead_rows
SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = 'queen';

-- name: pgmq_create
SELECT pgmq.create('bench');

-- name: pgmq_send
SELECT pgmq.send_batch('bench', $1::jsonb[]);

-- name: pgmq_read
SELECT msg_id, message::text AS body FROM pgmq.read('bench', 60, $1);

-- name: pgmq_delete
SELECT pgmq.delete('bench', $1::bigint[]);

-- name: work
-- What this database has done so far. Sessions report commits with a delay of up to a second.
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 AS wal_bytes,
       pg_database_size(current_database())::float8 AS disk_bytes,
       d.xact_commit::float8 AS commits,
       (SELECT coalesce(sum(s.calls), 0) FROM pg_stat_statements s WHERE s.dbid = d.datid)::float8 AS statements
FROM pg_stat_database d
WHERE d.datname = current_database();

-- name: make_ceiling
CREATE SCHEMA bench CREATE TABLE targets (client integer PRIMARY KEY, partition_ids uuid[], payload text);

-- name: add_ceiling_target
INSERT INTO bench.targets VALUES ($1, $2, $3);

-- name: fill_history
-- An hour and a half of history of $1 queues, so that charts are full from the start.
WITH minutes AS (
    SELECT date_trunc('minute', now()) - make_interval(mins => n) AS at, n FROM generate_series(1, 90) n
), queues AS (
    INSERT INTO queen.history_queues
    SELECT 1, m.at, 'queue-' || q, 'bench/0/1', 60, 600, 60000, 0, 60, 600, 0, 60, 600, 0, 0, 0, 0, 0, 900, 30, 60, 1
    FROM minutes m CROSS JOIN generate_series(0, $1 - 1) q
)
INSERT INTO queen.history_workers
SELECT 1, m.at, 'bench', 0, 1, 6632, 10, 2, 9e7, 4e8, 16, 12, 4, 0, 1, 3, 3600, 1200, 12000, 1200, 12000, 1200, 12000,
       0, 0, 0, 0, 900, 30, 60, 1
FROM minutes m;

-- name: store_compressed
ALTER TABLE queen.messages ALTER COLUMN payload SET STORAGE EXTENDED;

-- name: store_plain
ALTER TABLE queen.messages ALTER COLUMN payload SET STORAGE EXTERNAL;

-- name: read_payloads
SELECT sum(length(payload::text)) FROM queen.messages WHERE partition_id = ANY ($1::uuid[]);

-- name: message_bytes
SELECT pg_total_relation_size('queen.messages') AS bytes, pg_backend_pid() AS pid;
