-- name: show_partition
SELECT p.id::text, p.created_at, l.first_seq, l.last_seq, l.last_message_created_at AS newest_at
FROM queen.queues q
JOIN queen.partitions p ON p.queue_id = q.id
JOIN queen.partition_lookup l ON l.partition_id = p.id
WHERE q.name = $1 AND p.name = $2;

-- name: list_cursors
-- Return the groups of a partition, at most $2.
SELECT pc.consumer_group::text, pc.cursor_seq, pc.last_consumed_at, pc.lease_acquired_at, pc.lease_end_seq,
       CASE WHEN pc.lease_expires_at > now() THEN pc.lease_expires_at END AS leased_until, pc.retry_count, pc.retry_seq,
       pc.retry_at, pc.retry_error, pc.expiry_count, pc.blocked_seq, pc.total_consumed,
       l.last_seq - greatest(pc.cursor_seq, l.first_seq - 1) - (
           SELECT count(*) FROM queen.removed_messages r
           WHERE r.partition_id = pc.partition_id AND r.seq > greatest(pc.cursor_seq, l.first_seq - 1)) AS lag
FROM queen.partition_consumers pc
JOIN queen.partition_lookup l ON l.partition_id = pc.partition_id
WHERE pc.partition_id = $1::uuid
ORDER BY pc.consumer_group
LIMIT $2;

-- name: list_partitions_by
-- Return a page of the partitions of queue $1 whose name contains $2. With $4, only those in which a group is
-- blocked. $3 is the order: name, depth (most messages first) or newest (last pushed to first).
WITH queue AS (
    SELECT q.id, q.on_poison = 'block' AS blocks FROM queen.queues q WHERE q.name = $1
), page AS (
    -- An index has the order by name, so a page costs the same in a queue of a million partitions.
    (SELECT p.id
     FROM queen.partitions p
     WHERE $3 = 'name' AND p.queue_id = (SELECT id FROM queue) AND ($2::text IS NULL OR strpos(p.name, $2) > 0)
       AND (NOT $4::boolean OR (SELECT blocks FROM queue) AND EXISTS (
           SELECT FROM queen.partition_consumers pc WHERE pc.partition_id = p.id AND pc.blocked_seq IS NOT NULL))
     ORDER BY p.name LIMIT $5 OFFSET $6)
    UNION ALL
    -- The other orders read all partitions, so they read only one narrow table and keep only a page while they
    -- sort.
    (SELECT l.partition_id
     FROM queen.partition_lookup l
     WHERE $3 <> 'name' AND l.queue_id = (SELECT id FROM queue)
       AND ($2::text IS NULL OR EXISTS (
           SELECT FROM queen.partitions p WHERE p.id = l.partition_id AND strpos(p.name, $2) > 0))
       AND (NOT $4::boolean OR (SELECT blocks FROM queue) AND EXISTS (
           SELECT FROM queen.partition_consumers pc
           WHERE pc.partition_id = l.partition_id AND pc.blocked_seq IS NOT NULL))
     ORDER BY CASE WHEN $3 = 'depth' THEN (l.last_seq - l.first_seq)::double precision
                   ELSE date_part('epoch', l.last_message_created_at) END DESC NULLS LAST, l.partition_id
     LIMIT $5 OFFSET $6)
)
SELECT p.id::text, p.name::text, p.created_at, l.first_seq, l.last_seq, l.last_message_created_at AS newest_at,
       c.groups, c.leased, c.blocked, c.lag
FROM page
JOIN queen.partitions p ON p.id = page.id
JOIN queen.partition_lookup l ON l.partition_id = p.id
CROSS JOIN LATERAL (
    SELECT count(*) AS groups, count(*) FILTER (WHERE pc.lease_expires_at > now()) AS leased,
           count(*) FILTER (WHERE pc.blocked_seq IS NOT NULL AND (SELECT blocks FROM queue)) AS blocked,
           coalesce(max(l.last_seq - greatest(pc.cursor_seq, l.first_seq - 1)), 0) AS lag
    FROM queen.partition_consumers pc WHERE pc.partition_id = p.id
) c
ORDER BY CASE WHEN $3 = 'name' THEN p.name END, CASE WHEN $3 = 'depth' THEN l.last_seq - l.first_seq END DESC,
         CASE WHEN $3 = 'newest' THEN l.last_message_created_at END DESC NULLS LAST, p.id;

-- name: count_partitions
-- Count the partitions that list_partitions_by finds with the same $2 and $3, up to $4. Beyond that, page numbers
-- are of no use.
WITH queue AS (
    SELECT q.id, q.on_poison = 'block' AS blocks FROM queen.queues q WHERE q.name = $1
)
SELECT count(*) FROM (
    SELECT FROM queen.partitions p
    WHERE p.queue_id = (SELECT id FROM queue) AND ($2::text IS NULL OR strpos(p.name, $2) > 0)
      AND (NOT $3::boolean OR (SELECT blocks FROM queue) AND EXISTS (
          SELECT FROM queen.partition_consumers pc WHERE pc.partition_id = p.id AND pc.blocked_seq IS NOT NULL))
    LIMIT $4
) x;

-- name: list_group_partitions
-- Return a page of the partitions of queue $2 in which group $1 has a position and whose name contains $3. With $5,
-- only those under a lease. $4 is the order: lag (most first), name, or recent (last consumed from first). The oldest
-- message is expensive, so the query reads it only for the page.
-- The positions are those of group_positions. For one group, one join finds cursors and partitions without one.
WITH queue AS MATERIALIZED (
    SELECT q.id, q.name FROM queen.queues q WHERE q.name = $2
), start AS MATERIALIZED (
    -- A row if the group begins with the oldest message of each partition, but for those of own_ids.
    SELECT s.own_ids
    FROM queue q
    CROSS JOIN LATERAL queen.queue_groups(q.id, q.name) g
    CROSS JOIN LATERAL queen.queue_start(q.id, q.name, g.consumer_group) s
    WHERE g.consumer_group = $1 AND s.start_time IS NULL
), late AS MATERIALIZED (
    -- Partitions in which it begins later, and has not been yet.
    SELECT u.partition_id, u.last_seq, u.after_seq
    FROM queue q CROSS JOIN LATERAL queen.unvisited_positions(q.id, $1) u
), found AS MATERIALIZED (
    -- Narrow rows, since there is one for each partition. They are counted, and one page of them is kept.
    SELECT l.partition_id, l.last_seq, greatest(c.cursor_seq, l.first_seq - 1) AS after_seq, c.last_consumed_at
    FROM queen.partition_lookup l
    LEFT JOIN queen.partition_consumers c
        ON c.partition_id = l.partition_id AND c.consumer_group = $1 AND c.queue_id = (SELECT id FROM queue)
    WHERE l.queue_id = (SELECT id FROM queue)
      AND (c.partition_id IS NOT NULL OR l.last_seq >= l.first_seq AND EXISTS (SELECT FROM start)
           AND coalesce(l.partition_id <> ALL ((SELECT own_ids FROM start)::uuid[]), true))
      AND ($3::text IS NULL OR EXISTS (
          SELECT FROM queen.partitions p WHERE p.id = l.partition_id AND strpos(p.name, $3) > 0))
      AND (NOT $5::boolean OR c.lease_expires_at > now())
    UNION ALL
    SELECT t.partition_id, t.last_seq, t.after_seq, NULL FROM late t
    WHERE NOT $5::boolean AND ($3::text IS NULL OR EXISTS (
          SELECT FROM queen.partitions p WHERE p.id = t.partition_id AND strpos(p.name, $3) > 0))
), page AS (
    (SELECT f.*
     FROM found f JOIN queen.partitions p ON p.id = f.partition_id
     WHERE $4 = 'name'
     ORDER BY p.name LIMIT $6 OFFSET $7)
    UNION ALL
    (SELECT f.*
     FROM found f
     WHERE $4 <> 'name'
     ORDER BY CASE $4 WHEN 'lag' THEN (f.last_seq - f.after_seq)::double precision
                      ELSE date_part('epoch', f.last_consumed_at) END DESC NULLS LAST, f.partition_id
     LIMIT $6 OFFSET $7)
)
SELECT p.name::text AS partition_name, f.last_consumed_at, coalesce(c.total_consumed, 0) AS total_consumed,
       f.last_seq - f.after_seq - r.removed AS offset_lag,
       coalesce(floor(extract(epoch FROM now() - m.created_at)), 0)::bigint AS time_lag_seconds,
       coalesce(c.lease_expires_at > now(), false) AS is_leased,
       (SELECT count(*) FROM found) AS total
FROM page f
JOIN queen.partitions p ON p.id = f.partition_id
LEFT JOIN queen.partition_consumers c ON c.partition_id = f.partition_id AND c.consumer_group = $1
CROSS JOIN LATERAL (
    SELECT count(*) AS removed FROM queen.removed_messages x
    WHERE x.partition_id = f.partition_id AND x.seq > f.after_seq
) r
LEFT JOIN LATERAL (
    SELECT x.created_at FROM queen.messages x
    WHERE x.partition_id = f.partition_id AND x.seq > f.after_seq AND f.last_seq > f.after_seq
    ORDER BY x.seq LIMIT 1
) m ON true
ORDER BY CASE WHEN $4 = 'lag' THEN f.last_seq - f.after_seq - r.removed END DESC,
         CASE WHEN $4 = 'recent' THEN f.last_consumed_at END DESC NULLS LAST, p.name;

-- name: end_lease
SELECT queen.end_lease($1, $2, $3, $4);

-- name: preview_seek
-- Return the effect of a seek on each partition with a cursor of the group. $3: a partition or NULL. $4: a time.
-- $5: the next seq. Without both, the end.
SELECT count(*) AS partitions, coalesce(sum(greatest(t.old_seq - t.new_seq, 0)), 0)::bigint AS again,
       coalesce(sum(greatest(t.new_seq - t.old_seq, 0)), 0)::bigint AS skipped
FROM (
    SELECT greatest(pc.cursor_seq, l.first_seq - 1) AS old_seq,
           greatest(l.first_seq - 1, least(l.last_seq,
               CASE WHEN $5::bigint IS NOT NULL THEN $5 - 1
                    WHEN $4::timestamptz IS NULL THEN l.last_seq
                    ELSE queen.seq_before(l.partition_id, $4 + interval '1 microsecond') END)) AS new_seq
    FROM queen.queues q
    JOIN queen.partition_consumers pc ON pc.queue_id = q.id AND pc.consumer_group = $1
    JOIN queen.partition_lookup l ON l.partition_id = pc.partition_id
    JOIN queen.partitions p ON p.id = pc.partition_id
    WHERE q.name = $2 AND ($3::text IS NULL OR p.name = $3)
) t;

-- name: list_queues_with_dead_letters
SELECT q.name::text FROM queen.queues q
WHERE EXISTS (SELECT FROM queen.dead_letter_queue d WHERE d.queue_id = q.id);

-- name: summarize_dead_letters
-- Count the newest $3 dead letters of the queues $1 (NULL for all) by queue, group and error.
SELECT x.queue::text, x.consumer_group::text, x.error, count(*) AS letters, min(x.failed_at) AS first_at,
       max(x.failed_at) AS last_at, max(max(x.n)) OVER () = $3 AS is_cut
FROM (
    SELECT q.name AS queue, d.consumer_group, left(coalesce(d.error_message, ''), 500) AS error, d.failed_at,
           row_number() OVER (ORDER BY d.failed_at DESC) AS n
    FROM queen.dead_letter_queue d JOIN queen.queues q ON q.id = d.queue_id
    WHERE ($1::text[] IS NULL OR q.name = ANY ($1)) AND ($2::text IS NULL OR d.consumer_group = $2)
    ORDER BY d.failed_at DESC LIMIT $3
) x
GROUP BY x.queue, x.consumer_group, x.error
ORDER BY letters DESC, last_at DESC
LIMIT $4;
