-- name: record_minute
-- Write the minute of a worker. $1: rows of queues. $2: the row of the worker. $3: values to add to the totals.
-- $4: the process. $5: how many minutes it has written, including this one. The same number again changes nothing.
-- Two writes of one minute add up, because a process may have the host, place and id of one that has just ended.
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
        -- Clients may ask for a queue that does not exist. Such pops have no row.
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

-- name: claim_groups
-- One broker measures the lag of groups each time: the first that asks. At least $1 seconds after the last
-- measurement, and $2 times its duration.
INSERT INTO queen.system_state AS s (name, value) VALUES ('group_history', '{"tookMs": 0}')
ON CONFLICT (name) DO UPDATE SET updated_at = now()
WHERE s.updated_at < now() - make_interval(secs => greatest($1, $2 * (s.value ->> 'tookMs')::double precision / 1000))
RETURNING true;

-- name: record_groups
-- Write the lag of the $2 groups that are furthest behind as rows of the minute $1.
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
