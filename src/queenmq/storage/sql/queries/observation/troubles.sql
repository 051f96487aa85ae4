-- name: late_groups
-- Return groups with a message that has been due for more than $1 seconds, the longest first, at most $2.
SELECT l.consumer_group, q.name::text AS queue, sum(l.offset_lag)::bigint AS messages, count(*) AS partitions,
       extract(epoch FROM now() - min(l.oldest_at))::float8 AS oldest_s
FROM queen.group_lags(NULL) l
JOIN queen.queues q ON q.id = l.queue_id
WHERE l.oldest_at <= now() - make_interval(secs => $1 + q.delayed_processing + q.window_buffer)
GROUP BY l.consumer_group, q.name
ORDER BY min(l.oldest_at), q.name, l.consumer_group
LIMIT $2;

-- name: recent_dead_letters
-- Return queues with dead letters of the last $1 seconds, the most first, at most $3 queues. Count at most $2 of
-- each.
SELECT q.name::text AS queue, count(*) AS letters, (array_agg(left(d.error_message, 200) ORDER BY d.failed_at DESC))[1] AS error
FROM queen.queues q
CROSS JOIN LATERAL (
    SELECT x.error_message, x.failed_at FROM queen.dead_letter_queue x
    WHERE x.queue_id = q.id AND x.failed_at > now() - make_interval(secs => $1)
    ORDER BY x.failed_at DESC LIMIT $2
) d
GROUP BY q.name ORDER BY count(*) DESC, q.name LIMIT $3;
