-- name: configure_queue
SELECT queue_id, partition_id FROM queen.configure_queue($1, $2, $3, $4::jsonb);

-- name: delete_queue
SELECT queen.delete_queue($1);

-- name: delete_partition
SELECT queen.delete_partition($1, $2);

-- name: clear_queue
SELECT queen.clear_queue($1, $2);

-- name: ping
SELECT 1;

-- name: sweep_lease_partitions
-- Remove leases that no cursor carries. A lease that has ended stays for an hour while a cursor still carries it,
-- so that Queen knows that it has ended. Return the page's last lease if there may be more.
WITH page AS MATERIALIZED (
    SELECT lp.* FROM queen.lease_partitions lp
    WHERE lp.lease_id > $1
    ORDER BY lp.lease_id, lp.partition_id LIMIT $2
), removed AS (
    DELETE FROM queen.lease_partitions
    WHERE (lease_id, partition_id) IN (
        SELECT x.lease_id, x.partition_id
        FROM page p
        JOIN queen.lease_partitions x ON x.lease_id = p.lease_id AND x.partition_id = p.partition_id
        WHERE NOT EXISTS (
            SELECT FROM unnest(coalesce(p.partition_ids, ARRAY[p.partition_id])) AS u (id)
            JOIN queen.partition_consumers pc
                ON pc.partition_id = u.id AND pc.consumer_group = p.consumer_group
            WHERE pc.lease_id = p.lease_id
              AND (p.created_at > now() - interval '1 hour' OR pc.lease_expires_at > now()))
        -- Waits for no lock, so the order of the rows does not matter.
        FOR UPDATE OF x SKIP LOCKED)
)
SELECT CASE WHEN (SELECT count(*) FROM page) = $2
            THEN (SELECT lease_id FROM page ORDER BY lease_id DESC LIMIT 1) END;

-- name: sweep_staged
-- Go from stage to stage by the index: there are few stages, with many rows each.
WITH RECURSIVE stages AS (
    (SELECT stage_id, created_at FROM queen.spark_staging ORDER BY stage_id, ordinal LIMIT 1)
    UNION ALL
    SELECT n.stage_id, n.created_at
    FROM stages s CROSS JOIN LATERAL (
        SELECT x.stage_id, x.created_at FROM queen.spark_staging x
        WHERE x.stage_id > s.stage_id ORDER BY x.stage_id, x.ordinal LIMIT 1) n
), removed AS (
    DELETE FROM queen.spark_staging
    WHERE (stage_id, ordinal) IN (
        SELECT x.stage_id, x.ordinal FROM queen.spark_staging x
        WHERE x.stage_id IN (SELECT s.stage_id FROM stages s
                             WHERE s.created_at < now() - make_interval(secs => $1))
        LIMIT $2
        -- Waits for no lock, so the order of the rows does not matter.
        FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM removed;

-- name: shrink_staging
SELECT queen.shrink_staging();

-- name: sweep_single_writes
DELETE FROM queen.spark_commits
WHERE query_id >= 'once:' AND query_id < 'once;' AND committed_at < now() - make_interval(secs => $1);

-- name: sweep_transactions
WITH removed AS (
    DELETE FROM queen.transactions WHERE key IN (
        SELECT t.key FROM queen.transactions t
        WHERE t.committed_at < clock_timestamp() - make_interval(secs => $1)
        ORDER BY t.committed_at LIMIT $2
        -- Waits for no lock, so the order of the rows does not matter.
        FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM removed;

-- name: sweep_push_keys
-- While a spool has something in it, keep what is older than its last word: it may hold a copy. Keep nothing newer, so
-- that a spool that is gone for good keeps only a few.
WITH removed AS (
    DELETE FROM queen.push_keys WHERE key IN (
        SELECT k.key FROM queen.push_keys k
        WHERE k.created_at < clock_timestamp() - make_interval(secs => $1)
          AND k.created_at > (SELECT coalesce(max(s.updated_at), '-infinity') FROM queen.system_state s
                              WHERE s.name LIKE 'spool:%' AND (s.value ->> 'waiting')::bigint > 0)
        LIMIT $2
        FOR UPDATE SKIP LOCKED)
    RETURNING 1
)
SELECT count(*) FROM removed;

-- name: sweep_ack_history
-- Go from queue to queue by the index. Keep nothing of a deleted queue.
WITH RECURSIVE held AS (
    (SELECT h.queue_id FROM queen.ack_history h ORDER BY h.queue_id LIMIT 1)
    UNION ALL
    SELECT n.queue_id
    FROM held s CROSS JOIN LATERAL (
        SELECT x.queue_id FROM queen.ack_history x WHERE x.queue_id > s.queue_id ORDER BY x.queue_id LIMIT 1) n
), removed AS (
    DELETE FROM queen.ack_history
    WHERE (queue_id, passed_at, id) IN (
        SELECT x.queue_id, x.passed_at, x.id
        FROM held s
        LEFT JOIN queen.queues q ON q.id = s.queue_id
        CROSS JOIN LATERAL (
            SELECT h.queue_id, h.passed_at, h.id FROM queen.ack_history h
            WHERE h.queue_id = s.queue_id
              AND h.passed_at < CASE WHEN q.id IS NULL THEN 'infinity'
                                     ELSE clock_timestamp() - make_interval(secs => $1) END
            ORDER BY h.passed_at, h.id LIMIT $2
            -- Waits for no lock, so the order of the rows does not matter.
            FOR UPDATE SKIP LOCKED) x
        LIMIT $2)
    RETURNING 1
)
SELECT count(*) FROM removed;
