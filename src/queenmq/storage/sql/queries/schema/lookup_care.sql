-- Repairs of partition_lookup, and the checks of `queen db check`. Each kind is one statement and one snapshot, so
-- it sees changes of one transaction together. $1 bounds the examples. total counts all.

-- name: count_partitions
SELECT count(*) FROM queen.partitions;

-- name: next_partitions
SELECT id FROM queen.partitions WHERE $1::uuid IS NULL OR id > $1 ORDER BY id LIMIT $2;

-- name: resync_lookup
SELECT looked_at, created, repaired FROM queen.resync_lookup($1, $2);

-- name: lookup_missing
SELECT count(*) OVER () AS total, format('%s/%s', q.name, p.name) AS example
FROM queen.partitions p
JOIN queen.queues q ON q.id = p.queue_id
WHERE NOT EXISTS (
    SELECT FROM queen.partition_lookup l WHERE l.partition_id = p.id AND l.queue_id = p.queue_id)
ORDER BY p.id LIMIT $1;

-- name: lookup_behind
SELECT count(*) OVER () AS total,
       format('%s/%s: ', q.name, p.name) || CASE
           WHEN n.seq > l.last_seq
               THEN format('last_seq is %s, the newest message has %s', l.last_seq, n.seq)
           WHEN n.id IS DISTINCT FROM l.last_message_id
               THEN format('last_message_id is %s, message %s has %s', l.last_message_id, n.seq, n.id)
           WHEN n.xid <> l.last_xid THEN format('last_xid is %s, message %s has %s', l.last_xid, n.seq, n.xid)
           ELSE format('last_message_created_at is %s, message %s has %s', l.last_message_created_at, n.seq,
                       n.created_at) END AS example
FROM queen.partition_lookup l
JOIN queen.partitions p ON p.id = l.partition_id
JOIN queen.queues q ON q.id = p.queue_id
CROSS JOIN LATERAL (
    SELECT m.seq, m.id, m.created_at, m.xid FROM queen.messages m
    WHERE m.partition_id = l.partition_id ORDER BY m.seq DESC LIMIT 1
) n
WHERE n.seq > l.last_seq OR l.last_message_id IS NULL OR l.last_message_created_at IS NULL
   -- Without a last_xid, nothing was pushed since that column exists.
   OR (n.seq = l.last_seq
       AND (n.id, n.created_at, n.xid)
           IS DISTINCT FROM (l.last_message_id, l.last_message_created_at, coalesce(l.last_xid, n.xid)))
ORDER BY p.id LIMIT $1;

-- name: lookup_hollow
SELECT count(*) OVER () AS total,
       format('%s/%s: first_seq is %s, ', q.name, p.name, l.first_seq)
           || coalesce('the first message left has ' || o.seq, 'no message is left') AS example
FROM queen.partition_lookup l
JOIN queen.partitions p ON p.id = l.partition_id
JOIN queen.queues q ON q.id = p.queue_id
LEFT JOIN LATERAL (
    SELECT m.seq FROM queen.messages m
    WHERE m.partition_id = l.partition_id AND m.seq >= l.first_seq ORDER BY m.seq LIMIT 1
) o ON true
WHERE l.first_seq < coalesce(o.seq, l.last_seq + 1)
ORDER BY p.id LIMIT $1;

-- name: lookup_orphaned
SELECT count(*) OVER () AS total, format('partition %s', l.partition_id) AS example
FROM queen.partition_lookup l
WHERE NOT EXISTS (SELECT FROM queen.partitions p WHERE p.id = l.partition_id)
ORDER BY l.partition_id LIMIT $1;

-- name: cursor_ahead
SELECT count(*) OVER () AS total,
       format('%s/%s, group %s: cursor_seq is %s, last_seq %s', q.name, p.name, pc.consumer_group,
              pc.cursor_seq, l.last_seq) AS example
FROM queen.partition_consumers pc
JOIN queen.partition_lookup l ON l.partition_id = pc.partition_id
JOIN queen.partitions p ON p.id = pc.partition_id
JOIN queen.queues q ON q.id = p.queue_id
WHERE pc.cursor_seq > l.last_seq
ORDER BY pc.partition_id, pc.consumer_group LIMIT $1;

-- name: lease_ahead
SELECT count(*) OVER () AS total,
       format('%s/%s, group %s: lease_end_seq is %s, last_seq %s', q.name, p.name, pc.consumer_group,
              pc.lease_end_seq, l.last_seq) AS example
FROM queen.partition_consumers pc
JOIN queen.partition_lookup l ON l.partition_id = pc.partition_id
JOIN queen.partitions p ON p.id = pc.partition_id
JOIN queen.queues q ON q.id = p.queue_id
WHERE pc.lease_end_seq > l.last_seq
ORDER BY pc.partition_id, pc.consumer_group LIMIT $1;

-- name: cursor_orphaned
SELECT count(*) OVER () AS total,
       format('partition %s, group %s', pc.partition_id, pc.consumer_group)
           || CASE WHEN pc.lease_expires_at IS NOT NULL THEN ', leased' ELSE '' END AS example
FROM queen.partition_consumers pc
WHERE NOT EXISTS (SELECT FROM queen.partitions p WHERE p.id = pc.partition_id)
   OR NOT EXISTS (SELECT FROM queen.queues q WHERE q.id = pc.queue_id)
ORDER BY pc.partition_id, pc.consumer_group LIMIT $1;

-- name: lease_partition_orphaned
-- Younger ones wait for the next sweep.
SELECT count(*) OVER () AS total,
       format('lease %s, partition %s, group %s', lp.lease_id, lp.partition_id, lp.consumer_group) AS example
FROM queen.lease_partitions lp
WHERE lp.created_at < now() - interval '1 hour'
  AND NOT EXISTS (
      SELECT FROM queen.partition_consumers pc
      WHERE pc.partition_id = ANY (coalesce(lp.partition_ids, ARRAY[lp.partition_id]))
        AND pc.consumer_group = lp.consumer_group)
ORDER BY lp.lease_id, lp.partition_id LIMIT $1;

-- name: message_orphaned
-- Go from one partition to the next through the primary key: one probe per partition, not per message.
WITH RECURSIVE held AS (
    (SELECT m.partition_id FROM queen.messages m ORDER BY m.partition_id LIMIT 1)
    UNION ALL
    SELECT (SELECT m.partition_id FROM queen.messages m WHERE m.partition_id > h.partition_id
            ORDER BY m.partition_id LIMIT 1)
    FROM held h WHERE h.partition_id IS NOT NULL
), lost AS (
    SELECT h.partition_id,
           (SELECT count(*) FROM queen.messages m WHERE m.partition_id = h.partition_id) AS messages
    FROM held h
    WHERE h.partition_id IS NOT NULL
      AND NOT EXISTS (SELECT FROM queen.partitions p WHERE p.id = h.partition_id)
)
SELECT (sum(t.messages) OVER ())::bigint AS total,
       format('partition %s: %s messages', t.partition_id, t.messages) AS example
FROM lost t
ORDER BY t.partition_id LIMIT $1;
