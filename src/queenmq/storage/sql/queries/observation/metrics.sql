-- The queries of a scrape. They only read, and the broker caches the results for a while.

-- name: queue_gauges
-- Return the queues with the most to do, by rank. All others are one row, whose name is NULL.
SELECT CASE WHEN r.rank <= $1 THEN r.name END AS queue, sum(r.total)::bigint AS stored,
       sum(r.waiting)::bigint AS depth, sum(r.partitions)::bigint AS partitions,
       sum(r.dead)::bigint AS dead_letters, sum(r.leased)::bigint AS leased, sum(r.expired)::bigint AS expired,
       sum(r.blocked)::bigint AS blocked
FROM (
    SELECT q.name, p.*, c.leased, c.expired, c.blocked,
           row_number() OVER (ORDER BY p.waiting + p.dead DESC NULLS LAST, q.name) AS rank
    FROM queen.queues q
    LEFT JOIN (
        SELECT n.queue_id, count(*) AS partitions, sum(n.total) AS total, sum(n.pending + n.processing) AS waiting,
               sum(n.dead_letter) AS dead
        FROM queen.partition_counts(NULL) n GROUP BY n.queue_id
    ) p ON p.queue_id = q.id
    LEFT JOIN (
        SELECT x.queue_id, count(*) FILTER (WHERE x.lease_expires_at > now()) AS leased,
               count(*) FILTER (WHERE x.lease_expires_at <= now()) AS expired,
               count(*) FILTER (WHERE x.blocked_seq IS NOT NULL) AS blocked
        FROM queen.partition_consumers x GROUP BY x.queue_id
    ) c ON c.queue_id = q.id
) r
GROUP BY 1 ORDER BY 1;

-- name: group_gauges
SELECT CASE WHEN r.rank <= $1 THEN r.name END AS queue, CASE WHEN r.rank <= $1 THEN r.consumer_group END AS "group",
       sum(r.behind)::bigint AS messages, max(r.seconds)::double precision AS seconds
FROM (
    SELECT q.name, l.consumer_group, l.behind, l.seconds,
           row_number() OVER (ORDER BY l.behind DESC, q.name, l.consumer_group) AS rank
    FROM (
        SELECT x.queue_id, x.consumer_group, sum(x.offset_lag) AS behind,
               coalesce(max(extract(epoch FROM now() - x.oldest_at)), 0) AS seconds
        FROM queen.group_lags(NULL) x GROUP BY x.queue_id, x.consumer_group
    ) l
    JOIN queen.queues q ON q.id = l.queue_id
) r
GROUP BY 1, 2 ORDER BY 1, 2;

-- name: postgres_gauges
SELECT pg_database_size(current_database()) AS database_bytes,
       (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) AS connections,
       current_setting('max_connections')::integer AS max_connections,
       (SELECT count(*) FROM pg_stat_progress_vacuum) AS vacuums,
       coalesce((SELECT extract(epoch FROM max(now() - xact_start)) FROM pg_stat_activity
                 WHERE datname = current_database() AND state LIKE 'idle in transaction%'), 0)::double precision
           AS idle_transaction_seconds,
       d.blks_hit, d.blks_read, d.xact_commit, d.xact_rollback, d.deadlocks, d.temp_bytes
FROM pg_stat_database d WHERE d.datname = current_database();

-- name: replication_gauges
SELECT coalesce(nullif(application_name, ''), 'standby') AS standby,
       coalesce(max(extract(epoch FROM replay_lag)), 0)::double precision AS seconds,
       coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)), 0)::double precision AS bytes
FROM pg_stat_replication WHERE NOT pg_is_in_recovery() GROUP BY 1 ORDER BY 1;
