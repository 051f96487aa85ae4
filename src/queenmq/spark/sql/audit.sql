-- The statements of the audit. Each is one snapshot, so it sees changes of one transaction together. sql_text.py
-- fills in {{names}}. The findings of all checks have the same columns.

-- name: tables
-- Return the tables that a database of this version may lack.
SELECT to_regclass('queen.removed_messages') IS NOT NULL AS has_removed,
       to_regclass('queen.archive_marks') IS NOT NULL AS has_marks

-- name: places
-- Return each partition, and the last number up to which every message is from a transaction below the horizon.
-- Numbers become visible in order, so up to there nothing is open and nothing will be added.
SELECT q.name AS queue, p.name AS partition, l.partition_id::text AS partition_id, l.first_seq AS first_seq,
       coalesce(n.seq - 1, l.last_seq) AS safe_seq, {{removed}} AS removed, {{mark}} AS archived_seq
FROM queen.partition_lookup l
JOIN queen.partitions p ON p.id = l.partition_id
JOIN queen.queues q ON q.id = p.queue_id
LEFT JOIN (
    SELECT m.partition_id, min(m.seq) AS seq FROM queen.messages m
    WHERE m.queue_id = '{{queue}}'::uuid AND m.xid >= '{{xid}}'::xid8
    GROUP BY m.partition_id
) n ON n.partition_id = l.partition_id
WHERE l.queue_id = '{{queue}}'::uuid AND {{partitions}} AND {{part}}

-- name: removed
(SELECT count(*) FROM queen.removed_messages r
 WHERE r.partition_id = l.partition_id AND r.seq >= l.first_seq AND r.seq <= coalesce(n.seq - 1, l.last_seq))

-- name: mark
(SELECT k.archived_seq FROM queen.archive_marks k WHERE k.partition_id = l.partition_id AND k.lake = '{{lake}}'::uuid)

-- name: none
0::bigint

-- name: unknown
NULL::bigint

-- name: recount
-- Check a partition again whose numbers seemed to have a gap, all of it in one snapshot.
SELECT t.first_seq AS first_seq, t.found AS found, t.wanted AS wanted,
       (SELECT g.seq FROM (
            SELECT m.seq, lag(m.seq, 1, t.first_seq - 1) OVER (ORDER BY m.seq) AS before
            FROM queen.messages m
            WHERE m.partition_id = t.partition_id AND m.seq >= t.first_seq AND m.seq <= t.safe_seq
        ) g WHERE g.seq > g.before + 1 ORDER BY g.seq LIMIT 1) AS gap_seq
FROM (
    SELECT l.partition_id, l.first_seq, n.safe_seq,
           n.safe_seq - l.first_seq + 1 - {{removed}} AS wanted,
           (SELECT count(*) FROM queen.messages m
            WHERE m.partition_id = l.partition_id AND m.seq >= l.first_seq AND m.seq <= n.safe_seq) AS found
    FROM queen.partition_lookup l
    CROSS JOIN (SELECT {{safe_seq}}::bigint AS safe_seq, {{safe_seq}}::bigint + 1 AS seq) n
    JOIN queen.partitions p ON p.id = l.partition_id
    WHERE l.partition_id = '{{partition}}'::uuid AND l.first_seq <= n.safe_seq
) t

-- name: lookups
SELECT 'lookup' AS check_name, q.name AS queue, p.name AS partition, NULL::text AS consumer_group,
       coalesce(n.seq, o.seq) AS seq, CASE
           WHEN l.partition_id IS NULL THEN 'the partition has no lookup row'
           WHEN l.queue_id <> p.queue_id THEN 'the lookup row is filed under another queue'
           WHEN n.seq > l.last_seq THEN format('last_seq is %s, the newest message has %s', l.last_seq, n.seq)
           WHEN o.seq IS NOT NULL THEN format('first_seq is %s, but message %s is there', l.first_seq, o.seq)
           WHEN n.id IS DISTINCT FROM l.last_message_id
               THEN format('last_message_id is %s, message %s has %s', l.last_message_id, n.seq, n.id)
           ELSE format('last_message_created_at is %s, message %s has %s', l.last_message_created_at, n.seq,
                       n.created_at) END AS detail, p.id::text AS partition_id
FROM queen.partitions p
JOIN queen.queues q ON q.id = p.queue_id
LEFT JOIN queen.partition_lookup l ON l.partition_id = p.id
LEFT JOIN LATERAL (
    SELECT m.seq, m.id, m.created_at FROM queen.messages m
    WHERE m.partition_id = p.id ORDER BY m.seq DESC LIMIT 1
) n ON true
LEFT JOIN LATERAL (
    SELECT m.seq FROM queen.messages m
    WHERE m.partition_id = p.id AND m.seq < l.first_seq ORDER BY m.seq LIMIT 1
) o ON true
WHERE p.queue_id = '{{queue}}'::uuid AND {{partitions}} AND {{part}}
  AND (l.partition_id IS NULL OR l.queue_id <> p.queue_id OR n.seq > l.last_seq OR o.seq IS NOT NULL
       OR (n.seq = l.last_seq
           AND (n.id, n.created_at) IS DISTINCT FROM (l.last_message_id, l.last_message_created_at)))

-- name: cursors_ahead
SELECT 'cursor' AS check_name, q.name AS queue, p.name AS partition, h.consumer_group AS consumer_group,
       greatest(h.cursor_seq, h.lease_end_seq) AS seq, CASE
           WHEN p.id IS NULL THEN 'the cursor is in a partition that does not exist'
           WHEN h.cursor_seq > l.last_seq
               THEN format('the cursor stands at %s, the partition ends at %s', h.cursor_seq, l.last_seq)
           ELSE format('the lease ends at %s, the partition at %s', h.lease_end_seq, l.last_seq) END AS detail,
       h.partition_id::text AS partition_id
FROM queen.partition_consumers h
JOIN queen.queues q ON q.id = h.queue_id
LEFT JOIN queen.partitions p ON p.id = h.partition_id
LEFT JOIN queen.partition_lookup l ON l.partition_id = h.partition_id
WHERE h.queue_id = '{{queue}}'::uuid AND {{partitions}} AND {{part}}
  AND (p.id IS NULL OR h.cursor_seq > l.last_seq OR h.lease_end_seq > l.last_seq)

-- name: letters
-- A dead letter leads to its message, or is a whole copy of it. message_id finds the message in a lake.
SELECT 'dead letter' AS check_name, q.name AS queue, p.name AS partition, h.consumer_group AS consumer_group,
       h.seq AS seq, CASE
           WHEN p.id IS NULL THEN 'the letter is of a partition that does not exist'
           WHEN h.seq > l.last_seq THEN format('message %s was never stored, the partition ends at %s', h.seq,
                                               l.last_seq)
           WHEN m.id <> h.message_id THEN format('the letter is of message %s, number %s is %s', h.message_id,
                                                 h.seq, m.id)
           ELSE 'the message is gone and its copy has no transaction id' END AS detail,
       h.partition_id::text AS partition_id
FROM queen.dead_letter_queue h
JOIN queen.queues q ON q.id = h.queue_id
LEFT JOIN queen.partitions p ON p.id = h.partition_id
LEFT JOIN queen.partition_lookup l ON l.partition_id = h.partition_id
LEFT JOIN queen.messages m ON m.partition_id = h.partition_id AND m.seq = h.seq
WHERE h.queue_id = '{{queue}}'::uuid AND {{partitions}} AND {{part}}
  AND (p.id IS NULL OR h.seq > l.last_seq OR m.id <> h.message_id OR (m.id IS NULL AND h.transaction_id = ''))

-- name: kept_cursors
-- Return cursors of queues with a history, and from when on the history is complete.
SELECT q.name AS queue, p.name AS partition, h.partition_id::text AS partition_id,
       h.consumer_group AS consumer_group, h.cursor_seq AS cursor_seq,
       greatest(q.ack_history_since, h.created_at) AS since
FROM queen.partition_consumers h
JOIN queen.partitions p ON p.id = h.partition_id
JOIN queen.queues q ON q.id = h.queue_id
WHERE h.queue_id = '{{queue}}'::uuid AND q.ack_history AND {{partitions}} AND {{part}}

-- name: undelivered
-- Check numbers again that no step of a group has passed. Return the messages among them, if the cursor has passed
-- them and older steps exist.
SELECT count(*) AS messages, min(m.seq) AS first_seq
FROM queen.partition_consumers pc
JOIN queen.queues q ON q.id = pc.queue_id
JOIN queen.messages m ON m.partition_id = pc.partition_id AND m.seq <= pc.cursor_seq
CROSS JOIN (SELECT $1::json AS p) o
WHERE pc.partition_id = (o.p->>'partition')::uuid AND pc.consumer_group = o.p->>'group' AND q.ack_history
  AND m.seq >= (o.p->>'first')::bigint AND m.seq <= (o.p->>'last')::bigint
  AND EXISTS (
      SELECT FROM queen.ack_history h
      WHERE h.queue_id = pc.queue_id AND h.partition_id = pc.partition_id
        AND h.consumer_group = pc.consumer_group AND h.last_seq < (o.p->>'first')::bigint
        AND h.passed_at >= greatest(q.ack_history_since, pc.created_at))
  AND NOT EXISTS (
      SELECT FROM queen.ack_history h
      WHERE h.queue_id = pc.queue_id AND h.partition_id = pc.partition_id
        AND h.consumer_group = pc.consumer_group AND m.seq >= h.first_seq AND m.seq <= h.last_seq)

-- name: some_lookups
l.partition_id = ANY ('{{partitions}}'::uuid[])

-- name: some_partitions
p.id = ANY ('{{partitions}}'::uuid[])

-- name: some_rows
h.partition_id = ANY ('{{partitions}}'::uuid[])

-- name: all
true

-- name: lookup_part
(uuid_hash_extended(l.partition_id, 0) & 2147483647) % {{parts}} = {{part}}

-- name: partition_part
(uuid_hash_extended(p.id, 0) & 2147483647) % {{parts}} = {{part}}

-- name: row_part
(uuid_hash_extended(h.partition_id, 0) & 2147483647) % {{parts}} = {{part}}
