-- The statements of the archive job. $1 is a JSON text. sql_text.py fills in {{names}}.

-- name: settle_in
SELECT set_config('application_name', 'queen archive', false),
       set_config('lock_timeout', CASE WHEN current_setting('lock_timeout') = '0' THEN '30s'
                                       ELSE current_setting('lock_timeout') END, false)

-- name: lock
-- Allow one writer per lake. The session holds the lock outside any transaction, so it holds no snapshot.
SELECT pg_try_advisory_lock(hashtextextended('queen archive ' || ($1::json->>'lake'), 0)) AS is_ours

-- name: is_locked
-- Return whether the session still holds the lock. A connection that was replaced meanwhile has lost it.
SELECT EXISTS (
    SELECT FROM pg_locks k
    CROSS JOIN (SELECT hashtextextended('queen archive ' || ($1::json->>'lake'), 0) AS key) w
    WHERE k.locktype = 'advisory' AND k.pid = pg_backend_pid() AND k.granted AND k.objsubid = 1
      AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND k.classid = ((w.key >> 32) & 4294967295)::text::oid AND k.objid = (w.key & 4294967295)::text::oid
) AS is_ours

-- name: waiting
-- Return, for each queue, the first transaction with messages from its position on, below the horizon.
SELECT u.id::text AS id, w.xid::text AS first
FROM json_to_recordset($1::json->'queues') AS u (id uuid, xid xid8)
CROSS JOIN LATERAL (
    SELECT m.xid FROM queen.messages m
    WHERE m.queue_id = u.id AND m.xid >= u.xid AND m.xid < ($1::json->>'horizon')::xid8
    ORDER BY m.xid LIMIT 1
) w

-- name: positions
-- Return how far the lake is verified.
SELECT a.queue_id::text AS id, a.xid::text AS xid
FROM queen.archive_positions a
WHERE a.lake = ($1::json->>'lake')::uuid
  AND a.queue_id IN (SELECT json_array_elements_text($1::json->'queues')::uuid)

-- name: advance
-- Lock queue rows first, in the common order. If another session deletes a queue, wait for it. The queue is then
-- missing.
WITH locked AS MATERIALIZED (
    SELECT q.id FROM queen.queues q
    WHERE q.id IN (SELECT json_array_elements_text($1::json->'queues')::uuid)
    ORDER BY q.name
    FOR KEY SHARE
)
INSERT INTO queen.archive_positions AS a (lake, queue_id, xid, location, updated_at)
SELECT ($1::json->>'lake')::uuid, l.id, ($1::json->>'xid')::xid8, $1::json->>'location', clock_timestamp()
FROM locked l
ORDER BY l.id
ON CONFLICT (lake, queue_id) DO UPDATE
SET xid = excluded.xid, location = excluded.location, updated_at = excluded.updated_at
WHERE a.xid < excluded.xid

-- name: mark
SELECT queen.mark_archived(
    ($1::json->>'lake')::uuid, ARRAY(SELECT json_array_elements_text($1::json->'partitions')::uuid),
    ($1::json->>'before')::xid8, ($1::json->>'takes')::boolean) AS moved

-- name: partitions
-- Return the partitions of a queue, page by page.
SELECT p.id::text AS id
FROM queen.partitions p
WHERE p.queue_id = ($1::json->>'queue')::uuid AND p.id > ($1::json->>'after')::uuid
ORDER BY p.id
LIMIT 5000

-- name: belonging
-- Return those of the partitions that belong to these queues. A deleted queue had other partitions with the same
-- names.
SELECT p.id::text AS id
FROM queen.partitions p
WHERE p.id IN (SELECT json_array_elements_text($1::json->'partitions')::uuid)
  AND p.queue_id IN (SELECT json_array_elements_text($1::json->'queues')::uuid)

-- name: checksums
-- Return count and checksum of live messages per partition, by the rule of lake/tally.py.
SELECT m.partition_id::text AS partition_id, count(*) AS messages, min(m.seq) AS first_seq,
       max(m.seq) AS last_seq,
       sum(('x' || substr(md5(convert_to(concat_ws('/', m.partition_id, m.seq, m.id,
               coalesce(m.transaction_id, m.id::text), coalesce(m.trace_id::text, ''),
               (extract(epoch FROM m.created_at) * 1000000)::bigint, coalesce(m.producer_sub, ''),
               m.is_encrypted::integer, m.payload), 'UTF8')), 1, 15))::bit(60)::bigint)::text AS checksum
FROM queen.messages m
WHERE {{selection}}
GROUP BY m.partition_id
