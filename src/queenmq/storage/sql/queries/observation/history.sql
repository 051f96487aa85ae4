-- name: record_minute
-- All that a worker writes in a minute. $1 rows of queues, $2 the row of the worker, $3 what to add to the totals;
-- $4 the process and $5 how many minutes it has written with this one: the same number again changes nothing. Two
-- writes of one minute add up: a process may have the host, place and id of one that has just ended.
WITH mark AS (
    INSERT INTO queen.history_writers AS w (writer, number) VALUES ($4, $5)
    ON CONFLICT (writer) DO UPDATE SET number = excluded.number, written_at = now() WHERE w.number < excluded.number
    RETURNING 1
), queues AS (
    INSERT INTO queen.history_queues AS h
    SELECT r.step_minutes, r.at, n.name, r.worker,
           sum(r.push_requests), sum(r.push_messages), sum(r.push_bytes), sum(r.duplicates),
           sum(r.pop_requests), sum(r.pop_messages), sum(r.pop_empty), sum(r.ack_requests), sum(r.ack_success),
           sum(r.ack_failed), sum(r.retried), sum(r.dead_lettered), sum(r.transactions), sum(r.errors),
           sum(r.lag_ms), max(r.lag_ms_max), sum(r.lag_count), sum(r.parked)
    FROM jsonb_populate_recordset(NULL::queen.history_queues, $1::jsonb) r
    CROSS JOIN LATERAL (
        -- Anybody may ask for a queue that does not exist; those pops have no row of their own.
        SELECT CASE WHEN r.push_requests + r.push_messages + r.pop_messages + r.ack_requests + r.transactions > 0
                         OR EXISTS (SELECT FROM queen.queues q WHERE q.name = r.queue)
                    THEN r.queue ELSE '' END AS name
    ) n
    WHERE EXISTS (SELECT FROM mark)
    GROUP BY 1, 2, 3, 4
    ON CONFLICT ON CONSTRAINT history_queues_pkey DO UPDATE
    SET
        push_requests = h.push_requests + excluded.push_requests,
        push_messages = h.push_messages + excluded.push_messages,
        push_bytes = h.push_bytes + excluded.push_bytes, duplicates = h.duplicates + excluded.duplicates,
        pop_requests = h.pop_requests + excluded.pop_requests,
        pop_messages = h.pop_messages + excluded.pop_messages, pop_empty = h.pop_empty + excluded.pop_empty,
        ack_requests = h.ack_requests + excluded.ack_requests,
        ack_success = h.ack_success + excluded.ack_success, ack_failed = h.ack_failed + excluded.ack_failed,
        retried = h.retried + excluded.retried, dead_lettered = h.dead_lettered + excluded.dead_lettered,
        transactions = h.transactions + excluded.transactions, errors = h.errors + excluded.errors,
        lag_ms = h.lag_ms + excluded.lag_ms, lag_ms_max = greatest(h.lag_ms_max, excluded.lag_ms_max),
        lag_count = h.lag_count + excluded.lag_count, parked = greatest(h.parked, excluded.parked)
), workers AS (
    INSERT INTO queen.history_workers AS h
    SELECT r.* FROM jsonb_populate_record(NULL::queen.history_workers, $2::jsonb) r
    WHERE EXISTS (SELECT FROM mark)
    ON CONFLICT ON CONSTRAINT history_workers_pkey DO UPDATE
    SET
        port = excluded.port, cpu_user = excluded.cpu_user, cpu_system = excluded.cpu_system,
        rss_bytes = excluded.rss_bytes, virtual_bytes = excluded.virtual_bytes, pool_size = excluded.pool_size,
        pool_idle = excluded.pool_idle, pool_active = excluded.pool_active,
        pool_waiting = excluded.pool_waiting, loop_lag_ms = excluded.loop_lag_ms,
        loop_lag_ms_max = greatest(h.loop_lag_ms_max, excluded.loop_lag_ms_max),
        http_requests = h.http_requests + excluded.http_requests,
        push_requests = h.push_requests + excluded.push_requests,
        push_messages = h.push_messages + excluded.push_messages,
        pop_requests = h.pop_requests + excluded.pop_requests,
        pop_messages = h.pop_messages + excluded.pop_messages,
        ack_requests = h.ack_requests + excluded.ack_requests,
        ack_success = h.ack_success + excluded.ack_success, ack_failed = h.ack_failed + excluded.ack_failed,
        dead_lettered = h.dead_lettered + excluded.dead_lettered,
        transactions = h.transactions + excluded.transactions, db_errors = h.db_errors + excluded.db_errors,
        lag_ms = h.lag_ms + excluded.lag_ms, lag_count = h.lag_count + excluded.lag_count,
        lag_ms_max = greatest(h.lag_ms_max, excluded.lag_ms_max), parked = greatest(h.parked, excluded.parked)
)
INSERT INTO queen.history_totals AS t (name, value)
SELECT e.key, e.value::bigint FROM jsonb_each_text($3::jsonb) e WHERE EXISTS (SELECT FROM mark) ORDER BY e.key
ON CONFLICT (name) DO UPDATE SET value = t.value + excluded.value;

-- name: claim_history
-- One broker rolls up each time, whichever comes first.
INSERT INTO queen.system_state AS s (name, value) VALUES ('history', '{}')
ON CONFLICT (name) DO UPDATE SET updated_at = now()
WHERE s.updated_at < now() - make_interval(secs => $1)
RETURNING true;

-- name: roll_up_queues
-- Hours that are over; again for a while, because a broker may write its last minute late.
INSERT INTO queen.history_queues
SELECT 60, date_trunc('hour', h.at), h.queue, '', sum(h.push_requests), sum(h.push_messages), sum(h.push_bytes),
       sum(h.duplicates), sum(h.pop_requests), sum(h.pop_messages), sum(h.pop_empty), sum(h.ack_requests),
       sum(h.ack_success), sum(h.ack_failed), sum(h.retried), sum(h.dead_lettered), sum(h.transactions),
       sum(h.errors), sum(h.lag_ms), max(h.lag_ms_max), sum(h.lag_count), max(h.parked_now)
FROM (
    -- The most that waited at any minute, at all workers together.
    SELECT x.*, sum(x.parked) OVER (PARTITION BY x.at, x.queue) AS parked_now
    FROM queen.history_queues x
    WHERE x.step_minutes = 1 AND x.at < date_trunc('hour', now())
      AND x.at >= date_trunc('hour', now()) - make_interval(hours => $1)
) h
GROUP BY 2, 3
ON CONFLICT ON CONSTRAINT history_queues_pkey DO UPDATE
SET push_requests = excluded.push_requests, push_messages = excluded.push_messages,
    push_bytes = excluded.push_bytes, duplicates = excluded.duplicates, pop_requests = excluded.pop_requests,
    pop_messages = excluded.pop_messages, pop_empty = excluded.pop_empty, ack_requests = excluded.ack_requests,
    ack_success = excluded.ack_success, ack_failed = excluded.ack_failed, retried = excluded.retried,
    dead_lettered = excluded.dead_lettered, transactions = excluded.transactions, errors = excluded.errors,
    lag_ms = excluded.lag_ms, lag_ms_max = excluded.lag_ms_max, lag_count = excluded.lag_count,
    parked = excluded.parked;

-- name: roll_up_workers
INSERT INTO queen.history_workers
SELECT 60, date_trunc('hour', h.at), h.hostname, h.worker_id, h.pid, max(h.port), avg(h.cpu_user),
       avg(h.cpu_system), avg(h.rss_bytes), avg(h.virtual_bytes), avg(h.pool_size), avg(h.pool_idle),
       avg(h.pool_active), avg(h.pool_waiting), avg(h.loop_lag_ms), max(h.loop_lag_ms_max),
       sum(h.http_requests), sum(h.push_requests), sum(h.push_messages), sum(h.pop_requests), sum(h.pop_messages),
       sum(h.ack_requests), sum(h.ack_success), sum(h.ack_failed), sum(h.dead_lettered), sum(h.transactions),
       sum(h.db_errors), sum(h.lag_ms), max(h.lag_ms_max), sum(h.lag_count), max(h.parked)
FROM queen.history_workers h
WHERE h.step_minutes = 1 AND h.at < date_trunc('hour', now())
  AND h.at >= date_trunc('hour', now()) - make_interval(hours => $1)
GROUP BY 2, 3, 4, 5
ON CONFLICT ON CONSTRAINT history_workers_pkey DO UPDATE
SET cpu_user = excluded.cpu_user, cpu_system = excluded.cpu_system, rss_bytes = excluded.rss_bytes,
    virtual_bytes = excluded.virtual_bytes, pool_size = excluded.pool_size, pool_idle = excluded.pool_idle,
    pool_active = excluded.pool_active, pool_waiting = excluded.pool_waiting, loop_lag_ms = excluded.loop_lag_ms,
    loop_lag_ms_max = excluded.loop_lag_ms_max, http_requests = excluded.http_requests,
    push_requests = excluded.push_requests, push_messages = excluded.push_messages,
    pop_requests = excluded.pop_requests, pop_messages = excluded.pop_messages,
    ack_requests = excluded.ack_requests, ack_success = excluded.ack_success, ack_failed = excluded.ack_failed,
    dead_lettered = excluded.dead_lettered, transactions = excluded.transactions, db_errors = excluded.db_errors,
    lag_ms = excluded.lag_ms, lag_ms_max = excluded.lag_ms_max, lag_count = excluded.lag_count,
    parked = excluded.parked;

-- name: claim_groups
-- One broker looks at the lag of groups each time, whichever comes first. $1 seconds after the last look at the
-- earliest, and $2 times as long as that look took.
INSERT INTO queen.system_state AS s (name, value) VALUES ('group_history', '{"tookMs": 0}')
ON CONFLICT (name) DO UPDATE SET updated_at = now()
WHERE s.updated_at < now() - make_interval(secs => greatest($1, $2 * (s.value ->> 'tookMs')::double precision / 1000))
RETURNING true;

-- name: record_groups
-- The groups with the most before them, $2 at most, as rows of the minute $1.
INSERT INTO queen.history_groups
SELECT 1, $1, r.queue, r.consumer_group, r.kind, r.lag, r.lag, coalesce(extract(epoch FROM now() - r.oldest_at), 0)
FROM (
    SELECT q.name AS queue, l.consumer_group, 'consumer' AS kind, sum(l.offset_lag)::bigint AS lag,
           min(l.oldest_at) AS oldest_at, max(l.last_consumed_at) AS seen_at
    FROM queen.group_lags(NULL) l JOIN queen.queues q ON q.id = l.queue_id
    GROUP BY q.name, l.consumer_group
    UNION ALL
    SELECT l.queue_name, l.consumer_group, 'spark', max(l.offset_lag), min(l.oldest_at), max(l.updated_at)
    FROM queen.stream_lags(NULL) l
    GROUP BY l.queue_name, l.consumer_group
) r
ORDER BY r.lag DESC, r.seen_at DESC NULLS LAST, r.queue, r.consumer_group LIMIT $2
ON CONFLICT ON CONSTRAINT history_groups_pkey DO UPDATE
SET lag = excluded.lag, lag_max = excluded.lag_max, lag_seconds = excluded.lag_seconds;

-- name: note_groups
UPDATE queen.system_state SET value = json_build_object('tookMs', $1::double precision) WHERE name = 'group_history';

-- name: roll_up_groups
INSERT INTO queen.history_groups
SELECT 60, date_trunc('hour', h.at), h.queue, h.consumer_group, h.kind, avg(h.lag), max(h.lag_max), max(h.lag_seconds)
FROM queen.history_groups h
WHERE h.step_minutes = 1 AND h.at < date_trunc('hour', now())
  AND h.at >= date_trunc('hour', now()) - make_interval(hours => $1)
GROUP BY 2, 3, 4, 5
ON CONFLICT ON CONSTRAINT history_groups_pkey DO UPDATE
SET lag = excluded.lag, lag_max = excluded.lag_max, lag_seconds = excluded.lag_seconds;

-- name: sweep_history
WITH writers AS (
    DELETE FROM queen.history_writers w WHERE w.written_at < now() - interval '1 day'
), queues AS (
    DELETE FROM queen.history_queues h
    WHERE h.ctid = ANY (ARRAY(
        SELECT x.ctid FROM queen.history_queues x
        WHERE x.step_minutes = $1 AND x.at < now() - make_interval(secs => $2) LIMIT $3))
    RETURNING 1
), workers AS (
    DELETE FROM queen.history_workers h
    WHERE h.ctid = ANY (ARRAY(
        SELECT x.ctid FROM queen.history_workers x
        WHERE x.step_minutes = $1 AND x.at < now() - make_interval(secs => $2) LIMIT $3))
    RETURNING 1
), groups AS (
    DELETE FROM queen.history_groups h
    WHERE h.ctid = ANY (ARRAY(
        SELECT x.ctid FROM queen.history_groups x
        WHERE x.step_minutes = $1 AND x.at < now() - make_interval(secs => $2) LIMIT $3))
    RETURNING 1
)
SELECT greatest((SELECT count(*) FROM queues), (SELECT count(*) FROM workers), (SELECT count(*) FROM groups));

-- name: history_totals
SELECT name, value FROM queen.history_totals
UNION ALL
SELECT 'leases_expired', CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM queen.expired_leases s;

-- name: rolled_until
-- Up to here a span can be read hour by hour.
SELECT coalesce(max(at) + interval '1 hour', 'epoch') FROM queen.history_workers WHERE step_minutes = 60;

-- name: busiest_queues
-- Of the span's last part, so that a long span costs no more than a short one.
SELECT h.queue FROM queen.history_queues h
WHERE h.step_minutes = $1 AND h.at >= $2 AND h.at < $3
GROUP BY h.queue
ORDER BY sum(h.push_messages + h.pop_messages + h.ack_success) DESC, h.queue LIMIT $4;

-- name: queue_history
WITH removals AS (
    SELECT date_bin(make_interval(mins => $6), r.bucket, 'epoch') AS at, q.name, sum(r.removed_partitions) AS partitions
    FROM queen.retention_history r JOIN queen.queues q ON q.id = r.queue_id
    WHERE r.bucket >= $2 AND r.bucket < $5 AND r.removed_partitions > 0 AND q.name = ANY ($1)
    GROUP BY 1, 2
)
SELECT date_bin(make_interval(mins => $6), h.at, 'epoch') AS at, h.queue,
       sum(h.push_requests)::bigint AS push_requests, sum(h.push_messages)::bigint AS push_messages,
       sum(h.push_bytes)::bigint AS push_bytes, sum(h.duplicates)::bigint AS duplicates,
       sum(h.pop_requests)::bigint AS pop_requests, sum(h.pop_messages)::bigint AS pop_messages,
       sum(h.pop_empty)::bigint AS pop_empty, sum(h.ack_requests)::bigint AS ack_requests,
       sum(h.ack_success)::bigint AS ack_success, sum(h.ack_failed)::bigint AS ack_failed,
       sum(h.retried)::bigint AS retried, sum(h.dead_lettered)::bigint AS dead_lettered,
       sum(h.transactions)::bigint AS transactions, sum(h.errors)::bigint AS errors,
       sum(h.lag_ms) AS lag_ms, max(h.lag_ms_max) AS lag_ms_max, sum(h.lag_count)::bigint AS lag_count,
       max(h.parked_now)::bigint AS parked,
       coalesce(max(d.partitions), 0)::bigint AS partitions_deleted
FROM (
    SELECT x.*, sum(x.parked) OVER (PARTITION BY x.step_minutes, x.at, x.queue) AS parked_now
    FROM queen.history_queues x
    WHERE x.queue = ANY ($1)
      AND ((x.step_minutes = 60 AND x.at >= $2 AND x.at < $3) OR (x.step_minutes = 1 AND x.at >= $4 AND x.at < $5))
) h
LEFT JOIN removals d ON d.at = date_bin(make_interval(mins => $6), h.at, 'epoch') AND d.name = h.queue
GROUP BY 1, 2 ORDER BY 1, 2;

-- name: group_history
-- A row per bucket and group: of queue $1 and group $2, each NULL for all; those $8 with the most before them.
WITH found AS MATERIALIZED (
    SELECT h.* FROM queen.history_groups h
    WHERE ($1::text IS NULL OR h.queue = $1) AND ($2::text IS NULL OR h.consumer_group = $2)
      AND ((h.step_minutes = 60 AND h.at >= $3 AND h.at < $4) OR (h.step_minutes = 1 AND h.at >= $5 AND h.at < $6))
), chosen AS (
    SELECT f.queue, f.consumer_group, f.kind FROM found f
    GROUP BY 1, 2, 3
    ORDER BY max(f.lag_max) DESC, max(f.at) DESC, 1, 2, 3 LIMIT $8
)
SELECT date_bin(make_interval(mins => $7), f.at, 'epoch') AS at, f.queue, f.consumer_group, f.kind,
       avg(f.lag)::bigint AS lag, max(f.lag_max) AS lag_max, max(f.lag_seconds) AS lag_seconds
FROM found f JOIN chosen c USING (queue, consumer_group, kind)
GROUP BY 1, 2, 3, 4 ORDER BY 2, 3, 4, 1;

-- name: queues_of_scope
SELECT q.name::text FROM queen.queues_in_scope($1, $2, $3) q ORDER BY q.name LIMIT $4;

-- name: worker_history
SELECT h.at, h.hostname, h.worker_id, h.pid, h.port, h.cpu_user, h.cpu_system, h.rss_bytes, h.virtual_bytes,
       h.pool_size, h.pool_idle, h.pool_active, h.pool_waiting, h.loop_lag_ms, h.loop_lag_ms_max, h.http_requests,
       h.push_requests, h.push_messages, h.pop_requests, h.pop_messages, h.ack_requests, h.ack_success,
       h.ack_failed, h.dead_lettered, h.transactions, h.db_errors, h.lag_ms, h.lag_ms_max, h.lag_count, h.parked
FROM queen.history_workers h
WHERE ((h.step_minutes = 60 AND h.at >= $1 AND h.at < $2) OR (h.step_minutes = 1 AND h.at >= $3 AND h.at < $4))
  AND ($5::text IS NULL OR h.hostname = $5) AND ($6::integer IS NULL OR h.worker_id = $6)
ORDER BY h.at, h.hostname, h.worker_id LIMIT $7;

-- name: parked_history
SELECT h.at, h.queue, h.worker, h.parked FROM queen.history_queues h
WHERE h.step_minutes = 1 AND h.at >= $1 AND h.at < $2 AND ($3::text IS NULL OR h.queue = $3) AND h.parked > 0
ORDER BY h.at DESC, h.queue, h.worker LIMIT $4;

-- name: last_minute
-- Rates and waiting pops of the last whole minute, by queue; the busiest first.
SELECT h.queue, sum(h.push_requests)::bigint AS push_requests, sum(h.push_messages)::bigint AS push_messages,
       sum(h.pop_requests)::bigint AS pop_requests, sum(h.pop_messages)::bigint AS pop_messages,
       sum(h.pop_empty)::bigint AS pop_empty, sum(h.ack_requests)::bigint AS ack_requests,
       sum(h.ack_success)::bigint AS ack_success, sum(h.ack_failed)::bigint AS ack_failed,
       sum(h.transactions)::bigint AS transactions, sum(h.lag_ms) AS lag_ms, max(h.lag_ms_max) AS lag_ms_max,
       sum(h.lag_count)::bigint AS lag_count, sum(h.parked)::bigint AS parked
FROM queen.history_queues h
WHERE h.step_minutes = 1 AND h.at = date_trunc('minute', now()) - interval '1 minute' AND h.queue <> ''
GROUP BY h.queue
ORDER BY sum(h.push_messages + h.pop_messages + h.ack_success) + sum(h.parked) DESC, h.queue LIMIT $1;
