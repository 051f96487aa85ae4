-- The statements of the data source. Every statement is short: planning reads indexes, and its plan bounds a task.
-- sql_text.py fills in {{names}}. $1 is a JSON text.

-- name: scope
-- Return the queues that the options select, in id order.
SELECT q.id::text AS id, q.name AS name
FROM queen.queues q
CROSS JOIN (SELECT $1::json AS options) o
WHERE (o.options->>'queues' IS NULL
       OR q.name IN (SELECT json_array_elements_text(o.options->'queues')))
  AND (o.options->>'pattern' IS NULL OR q.name ~ ('^(?:' || (o.options->>'pattern') || ')$'))
  AND (o.options->>'namespace' IS NULL OR q.namespace = o.options->>'namespace')
  AND (o.options->>'task' IS NULL OR q.task = o.options->>'task')
ORDER BY q.id

-- name: partition_ids
-- Return the partitions of these queues that have one of these names.
SELECT p.id::text AS id
FROM queen.partitions p
CROSS JOIN (SELECT $1::json AS options) o
WHERE p.queue_id IN (SELECT json_array_elements_text(o.options->'queues')::uuid)
  AND p.name IN (SELECT json_array_elements_text(o.options->'names'))
ORDER BY p.id

-- name: horizon
-- Every transaction below this number has ended, in all databases of the server.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS xid

-- name: wait
-- Return whether there is something to read from a transaction on. Waits a while for it.
SELECT queen.wait_for_messages($1::json->'scope', ($1::json->>'xid')::xid8, ($1::json->>'wait')::integer) AS is_found

-- name: first_since
-- Return the first transaction with a message of that time or later. Take the horizon first, because an open
-- transaction may hold such messages too.
SELECT m.xid::text AS xid
FROM queen.messages m
WHERE {{selection}} AND m.created_at >= '{{time}}'::timestamptz
ORDER BY m.xid
LIMIT 1

-- name: cut
-- Return the transaction of the first waiting message, and that of the message after this many others.
WITH waiting AS MATERIALIZED (
    SELECT w.xid
    FROM unnest('{{queues}}'::uuid[]) AS u (id)
    CROSS JOIN LATERAL (
        SELECT m.xid
        FROM queen.messages m
        WHERE m.queue_id = u.id AND {{selection}}
        ORDER BY m.xid
        LIMIT {{limit}} + 1
    ) w
)
SELECT (SELECT w.xid::text FROM waiting w ORDER BY w.xid LIMIT 1) AS first,
       (SELECT w.xid::text FROM waiting w ORDER BY w.xid OFFSET {{limit}} LIMIT 1) AS next

-- name: count_before
-- Return how many messages were ever stored before a transaction, removed ones included. Sequence numbers have no
-- gaps, so the last numbers add up to all stored messages. The selection is the later messages.
SELECT (
    SELECT coalesce(sum(l.last_seq), 0)::bigint
    FROM queen.partition_lookup l
    WHERE l.queue_id = ANY ('{{queues}}'::uuid[]) AND {{lookups}}
) - (
    SELECT count(*) FROM queen.messages m WHERE {{selection}}
) AS messages

-- name: some_lookups
l.partition_id = ANY ('{{partitions}}'::uuid[])

-- name: count_up_to
-- Counting stops at a bound, because a number for display must not cost more than the batch.
SELECT count(*) AS messages
FROM (SELECT FROM queen.messages m WHERE {{selection}} LIMIT {{limit}}) w

-- name: splits
-- Cut the range between transactions into pieces of this many messages or bytes, and into a minimum number of
-- pieces if there are as many transactions. A piece that is one large transaction is cut again by places.
WITH sample AS (
    -- The size of the text, which a task holds. The stored value may be compressed.
    SELECT coalesce(avg(octet_length(s.payload::text)), 0) + 200 AS bytes
    FROM (SELECT m.payload FROM queen.messages m WHERE {{selection}} LIMIT 200) s
), transactions AS MATERIALIZED (
    SELECT m.xid, count(*) AS messages FROM queen.messages m WHERE {{selection}} GROUP BY m.xid
), goal AS (
    SELECT greatest(1, least({{rows}}, floor({{bytes}} / s.bytes), ceil(sum(t.messages) / {{pieces}}))) AS messages
    FROM transactions t CROSS JOIN sample s
    GROUP BY s.bytes
), numbered AS (
    SELECT t.xid::text::bigint AS xid, t.messages, g.messages AS goal,
           div(sum(t.messages) OVER (ORDER BY t.xid) - 1, g.messages) AS piece
    FROM transactions t CROSS JOIN goal g
)
SELECT min(n.xid) AS first, max(n.xid) AS last, sum(n.messages)::bigint AS messages,
       min(n.goal)::bigint AS goal
FROM numbered n
GROUP BY n.piece
ORDER BY first

-- name: places
-- Return where to cut messages that are too many for one task: the first message of each piece, in the order of
-- partitions and their messages. A piece has about this many messages or bytes, or one message. Sizes are known
-- without reading payloads, except for compressed ones.
WITH sized AS (
    SELECT m.partition_id, m.seq, row_number() OVER line AS number, count(*) OVER () AS messages,
           floor(sum(greatest(1.0::float8 / {{rows}}, (200.0::float8 + CASE
                         WHEN pg_column_compression(m.payload) IS NULL THEN pg_column_size(m.payload)
                         ELSE octet_length(m.payload::text) END) / {{bytes}})) OVER line) AS piece
    FROM queen.messages m
    WHERE {{selection}}
    WINDOW line AS (ORDER BY m.partition_id, m.seq)
)
SELECT f.partition_id::text AS partition_id, f.seq, f.number, f.messages
FROM (SELECT z.*, lag(z.piece) OVER (ORDER BY z.number) AS before FROM sized z) f
WHERE f.piece IS DISTINCT FROM f.before
ORDER BY f.number

-- name: messages
-- Return values as they are stored. schema.py converts them faster than a cast here.
SELECT m.partition_id AS partition_id, m.seq AS seq, m.id AS message_id, m.transaction_id AS transaction_id,
       m.trace_id AS trace_id, m.payload AS payload, m.created_at AS created_at,
       m.producer_sub AS producer_sub, m.is_encrypted AS is_encrypted{{more}}
FROM queen.messages m
WHERE {{selection}}

-- name: names
-- Return the names of partitions, so that messages need not carry them in each row.
SELECT p.id AS partition_id, p.name AS partition, q.name AS queue, q.namespace AS namespace, q.task AS task
FROM queen.partitions p
JOIN queen.queues q ON q.id = p.queue_id
WHERE p.id = ANY ('{{partitions}}'::uuid[])

-- name: delivery_state
, ARRAY(SELECT c.consumer_group FROM queen.partition_consumers c
        WHERE c.partition_id = m.partition_id AND c.cursor_seq >= m.seq
        ORDER BY c.consumer_group) AS consumed_by,
  EXISTS (SELECT FROM queen.dead_letter_queue d
          WHERE d.partition_id = m.partition_id AND d.seq = m.seq) AS is_dead_letter

-- name: xid
, m.xid::text::bigint AS xid

-- name: in_queues
m.queue_id = ANY ('{{queues}}'::uuid[])

-- name: from_transaction
m.xid >= '{{xid}}'::xid8

-- name: before_transaction
m.xid < '{{xid}}'::xid8

-- name: in_partitions
m.partition_id = ANY ('{{partitions}}'::uuid[])

-- name: from_seq
m.seq >= {{seq}}

-- name: to_seq
m.seq <= {{seq}}

-- name: from_time
m.created_at >= '{{time}}'::timestamptz

-- name: before_time
m.created_at < '{{time}}'::timestamptz

-- name: from_place
(m.partition_id, m.seq) >= ('{{partition}}'::uuid, {{seq}})

-- name: before_place
(m.partition_id, m.seq) < ('{{partition}}'::uuid, {{seq}})

-- name: everything
true

-- name: holder
-- Return whether messages wait above the horizon, and the oldest open transaction, for which they wait. A role
-- without pg_read_all_stats sees neither name nor age of other users' transactions.
SELECT o.pid, o.name, o.age_s
FROM (
    SELECT a.pid::text AS pid, coalesce(nullif(a.application_name, ''), 'a session without a name') AS name,
           extract(epoch FROM clock_timestamp() - a.xact_start)::bigint AS age_s, age(a.backend_xid) AS xids
    FROM pg_stat_activity a
    WHERE a.backend_xid IS NOT NULL
    UNION ALL
    SELECT 'none', 'the prepared transaction ' || x.gid,
           extract(epoch FROM clock_timestamp() - x.prepared)::bigint, age(x.transaction)
    FROM pg_prepared_xacts x
) o
WHERE EXISTS (SELECT FROM queen.messages m WHERE {{selection}})
ORDER BY o.xids DESC
LIMIT 1
