-- name: claim_history
-- One broker rolls up each time: the first that asks.
INSERT INTO queen.system_state AS s (name, value) VALUES ('history', '{}')
ON CONFLICT (name) DO UPDATE SET updated_at = now()
WHERE s.updated_at < now() - make_interval(secs => $1)
RETURNING true;

-- name: roll_up_queues
-- Roll up completed hours, and repeat that for a while, because a broker may write its last minute late.
INSERT INTO queen.history_queues
SELECT 60, date_trunc('hour', h.at), h.queue, '', sum(h.push_requests), sum(h.push_messages), sum(h.push_bytes),
       sum(h.duplicates), sum(h.pop_requests), sum(h.pop_messages), sum(h.pop_empty), sum(h.ack_requests),
       sum(h.ack_success), sum(h.ack_failed), sum(h.retried), sum(h.dead_lettered), sum(h.transactions),
       sum(h.errors), sum(h.lag_ms), max(h.lag_ms_max), sum(h.lag_count), max(h.parked_now)
FROM (
    -- The highest number of waiting pops of any minute, over all workers.
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
