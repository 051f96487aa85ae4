-- name: overview
SELECT (SELECT count(*) FROM queen.queues) AS queues,
       (SELECT count(DISTINCT namespace) FROM queen.queues WHERE namespace <> '') AS namespaces,
       (SELECT count(DISTINCT task) FROM queen.queues WHERE task <> '') AS tasks,
       c.*, g.*, (SELECT coalesce(sum(t.messages), 0)::bigint FROM queen.count_by_time(
           NULL, NULL, NULL, now() - interval '60 seconds', now(), interval '60 seconds', 1000) t) AS ingested
FROM (
    SELECT count(*) AS partitions, coalesce(sum(n.total), 0)::bigint AS total,
           coalesce(sum(n.pending), 0)::bigint AS pending, coalesce(sum(n.processing), 0)::bigint AS processing,
           coalesce(sum(n.completed), 0)::bigint AS completed, coalesce(sum(n.failed), 0)::bigint AS failed,
           coalesce(sum(n.dead_letter), 0)::bigint AS dead_letter
    FROM queen.partition_counts(NULL) n
) c
CROSS JOIN (
    SELECT coalesce(sum(l.total_consumed), 0)::bigint AS total_consumed,
           coalesce(avg(l.age), 0)::double precision AS time_avg,
           coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY l.age), 0)::double precision AS time_median,
           coalesce(min(l.age), 0)::double precision AS time_min,
           coalesce(max(l.age), 0)::double precision AS time_max,
           coalesce(avg(l.behind), 0)::double precision AS offset_avg,
           coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY l.behind), 0)::double precision AS offset_median,
           coalesce(min(l.behind), 0)::bigint AS offset_min, coalesce(max(l.behind), 0)::bigint AS offset_max
    FROM (SELECT x.total_consumed, nullif(x.offset_lag, 0) AS behind,
                 extract(epoch FROM now() - x.oldest_at)::double precision AS age
          FROM queen.group_lags(NULL) x) l
) g;

-- name: status_queues
SELECT q.id::text, q.name::text, q.namespace::text, q.task::text, q.created_at, n.partitions,
       n.total, n.pending, n.processing, n.completed, n.failed, n.dead_letter, t.total_consumed
FROM (
    SELECT x.* FROM queen.queues_in_scope($1, $2, $3) x
    ORDER BY x.created_at DESC, x.name LIMIT $4 OFFSET $5
) q
CROSS JOIN LATERAL (
    SELECT count(*) AS partitions, coalesce(sum(c.total), 0)::bigint AS total,
           coalesce(sum(c.pending), 0)::bigint AS pending, coalesce(sum(c.processing), 0)::bigint AS processing,
           coalesce(sum(c.completed), 0)::bigint AS completed, coalesce(sum(c.failed), 0)::bigint AS failed,
           coalesce(sum(c.dead_letter), 0)::bigint AS dead_letter
    FROM queen.partition_counts(q.id) c
) n
CROSS JOIN LATERAL (
    SELECT coalesce(sum(c.total_consumed), 0)::bigint AS total_consumed
    FROM queen.partition_consumers c WHERE c.queue_id = q.id
) t
ORDER BY q.created_at DESC, q.name;

-- name: status_leases
SELECT count(DISTINCT c.lease_id) AS active, count(DISTINCT c.partition_id) AS partitions,
       coalesce(sum(c.lease_end_seq - c.cursor_seq), 0)::bigint AS messages
FROM queen.queues_in_scope($1, $2, $3) q
JOIN queen.partition_consumers c ON c.queue_id = q.id
WHERE c.lease_expires_at > now();

-- name: status_dead_letters
SELECT count(*) AS total, count(DISTINCT d.partition_id) AS partitions
FROM queen.queues_in_scope($1, $2, $3) q JOIN queen.dead_letter_queue d ON d.queue_id = q.id;

-- name: status_top_errors
SELECT e.error_message AS error, count(*) AS count
FROM (
    SELECT left(d.error_message, 200) AS error_message
    FROM queen.queues_in_scope($1, $2, $3) q
    CROSS JOIN LATERAL (
        SELECT x.error_message FROM queen.dead_letter_queue x
        WHERE x.queue_id = q.id ORDER BY x.failed_at DESC LIMIT $4
    ) d
    LIMIT $4
) e
GROUP BY e.error_message ORDER BY count(*) DESC, e.error_message LIMIT 10;

-- name: count_by_time
SELECT starts_at, messages, is_cut FROM queen.count_by_time($1, $2, $3, $4, $5, make_interval(secs => $6), $7);

-- name: status_queue
SELECT q.id, q.name::text, q.namespace::text, q.task::text, q.priority, q.created_at, q.lease_time, q.retry_limit,
       q.retry_delay, q.ttl, q.max_size, q.dead_letter_queue
FROM queen.queues q WHERE q.name = $1;

-- name: status_queue_totals
SELECT count(*) AS partitions, coalesce(sum(c.total), 0)::bigint AS total,
       coalesce(sum(c.pending), 0)::bigint AS pending, coalesce(sum(c.processing), 0)::bigint AS processing,
       coalesce(sum(c.completed), 0)::bigint AS completed, coalesce(sum(c.failed), 0)::bigint AS failed,
       coalesce(sum(c.dead_letter), 0)::bigint AS dead_letter
FROM queen.partition_counts($1) c;

-- name: status_partitions
SELECT p.id::text, p.name::text, p.created_at, n.total, n.pending, n.processing, n.completed, n.failed,
       n.dead_letter, o.created_at AS oldest_at, CASE WHEN n.total > 0 THEN l.last_message_created_at END AS newest_at,
       t.total_consumed, t.total_batches,
       greatest(l.last_message_created_at, t.last_consumed_at, t.last_served_at) AS last_activity
FROM (SELECT x.* FROM queen.partitions x WHERE x.queue_id = $1 ORDER BY x.name LIMIT $2 OFFSET $3) p
JOIN queen.partition_counts($1) n ON n.partition_id = p.id
JOIN queen.partition_lookup l ON l.partition_id = p.id
CROSS JOIN LATERAL (
    SELECT coalesce(sum(c.total_consumed), 0)::bigint AS total_consumed,
           coalesce(sum(c.total_batches), 0)::bigint AS total_batches,
           max(c.last_consumed_at) AS last_consumed_at, max(c.last_served_at) AS last_served_at
    FROM queen.partition_consumers c WHERE c.partition_id = p.id
) t
LEFT JOIN LATERAL (
    SELECT m.created_at FROM queen.messages m
    WHERE m.partition_id = l.partition_id AND m.seq >= l.first_seq
    ORDER BY m.seq LIMIT 1
) o ON true
ORDER BY p.name;
