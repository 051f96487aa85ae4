-- The figures that a stream reports in the progress of its query. sql_text.py fills in {{names}}.

-- name: figures
-- Return, per queue, the messages of a batch, the messages that it leaves unread, and the age of the first of
-- these. Both counts are bounded, and read only the index by queue and transaction.
SELECT q.name AS queue,
       (SELECT count(*) FROM (
            SELECT FROM queen.messages m WHERE m.queue_id = q.id AND {{batch}} LIMIT {{limit}}) b) AS messages,
       (SELECT count(*) FROM (
            SELECT FROM queen.messages m WHERE m.queue_id = q.id AND {{waiting}} LIMIT {{limit}}) w) AS waiting,
       (SELECT greatest(0, extract(epoch FROM clock_timestamp() - w.created_at))::bigint FROM (
            SELECT m.created_at FROM queen.messages m WHERE m.queue_id = q.id AND {{waiting}}
            ORDER BY m.xid LIMIT 1) w) AS age_s
FROM queen.queues q
WHERE q.id = ANY ('{{queues}}'::uuid[])
ORDER BY q.name
