-- The statements by which readers check that the database is still the same. $1 is a JSON text.

-- name: mark
SELECT m.database, m.is_known, m.mark, m.last_xid::text AS last_xid
FROM queen.mark_position($1::json->>'reader', ($1::json->>'last')::bigint, ($1::json->>'xid')::xid8) m

-- name: deleted
-- Return the queues that were deleted unread.
SELECT d.name FROM queen.find_deleted_queues(
    $1::json->'scope', ($1::json->>'seen')::xid8, ($1::json->>'position')::xid8) d
ORDER BY d.name

-- name: ahead
-- Return messages with numbers that the server has not assigned. They came with a dump, and wait until the server
-- reaches their numbers.
SELECT q.name AS queue, count(*) AS messages, max(m.xid::text::numeric)::text AS xid
FROM queen.messages m
JOIN queen.queues q ON q.id = m.queue_id
WHERE m.queue_id = ANY ('{{queues}}'::uuid[]) AND m.xid >= pg_snapshot_xmax(pg_current_snapshot())
GROUP BY q.name
ORDER BY q.name
