-- The statements of the analytics job, besides reading messages. Every reading statement covers a part of bounded
-- size. sql_text.py fills in {{names}}. $1 and $2 are JSON texts.

-- name: chosen
-- Return the queues, whether they keep a history, and how many partitions they have.
SELECT q.id::text AS id, q.name AS name, q.ack_history AS keeps_history,
       (SELECT count(*) FROM queen.partition_lookup l WHERE l.queue_id = q.id) AS partitions
FROM queen.queues q
WHERE q.id = ANY ('{{queues}}'::uuid[])
ORDER BY q.name

-- name: history_parts
-- Cut the history of a queue from a time on into parts that cover this many messages.
SELECT n.queue_id::text AS queue_id, min(n.passed_at) AS first
FROM (
    SELECT h.queue_id, h.passed_at,
           div(sum(1 + h.completed) OVER (PARTITION BY h.queue_id ORDER BY h.passed_at, h.id) - 1, {{rows}}) AS part
    FROM queen.ack_history h
    WHERE h.queue_id = ANY ('{{queues}}'::uuid[]) AND h.passed_at >= '{{start}}'::timestamptz
      AND h.xid < '{{xid}}'::xid8
) n
GROUP BY n.queue_id, n.part
ORDER BY n.queue_id, n.part

-- name: steps
SELECT q.name AS queue, p.name AS partition, h.partition_id::text AS partition_id,
       h.consumer_group AS consumer_group, h.id AS id, h.passed_at AS passed_at, h.first_seq AS first_seq,
       h.last_seq AS last_seq, h.completed + h.dead_lettered AS consumed, h.retries::bigint AS retries
FROM queen.ack_history h
JOIN queen.partitions p ON p.id = h.partition_id
JOIN queen.queues q ON q.id = h.queue_id
WHERE h.queue_id = '{{queue}}'::uuid AND h.xid < '{{xid}}'::xid8
  AND h.passed_at >= '{{start}}'::timestamptz AND h.passed_at < '{{end}}'::timestamptz AND {{partitions}}

-- name: last_steps
-- Return the position of each group by its last step before the range. A seek back leaves no step.
SELECT DISTINCT ON (h.partition_id, h.consumer_group) q.name AS queue, h.partition_id::text AS partition_id,
       h.consumer_group AS consumer_group, h.last_seq AS reached
FROM queen.ack_history h
JOIN queen.queues q ON q.id = h.queue_id
WHERE h.queue_id = '{{queue}}'::uuid AND h.passed_at < '{{start}}'::timestamptz AND {{partitions}} AND {{part}}
ORDER BY h.partition_id, h.consumer_group, h.passed_at DESC, h.id DESC

-- name: latencies
-- Return the time of each message from its push to its ack. Messages that were removed since are not measured.
SELECT q.name AS queue, p.name AS partition, h.partition_id::text AS partition_id,
       h.consumer_group AS consumer_group, h.passed_at AS passed_at,
       (extract(epoch FROM h.passed_at - m.created_at) * 1000)::double precision AS latency_ms
FROM queen.ack_history h
JOIN queen.partitions p ON p.id = h.partition_id
JOIN queen.queues q ON q.id = h.queue_id
JOIN queen.messages m ON m.partition_id = h.partition_id AND m.seq >= h.first_seq AND m.seq <= h.last_seq
WHERE h.queue_id = '{{queue}}'::uuid AND h.xid < '{{xid}}'::xid8 AND h.cause IN ('ack', 'autoAck')
  AND h.passed_at >= '{{start}}'::timestamptz AND h.passed_at < '{{end}}'::timestamptz AND {{partitions}}

-- name: heads
-- Return the last number of each partition when the range began, and now.
SELECT q.name AS queue, p.name AS partition, h.partition_id::text AS partition_id, h.first_seq AS first_seq,
       h.last_seq AS last_seq,
       CASE WHEN h.last_message_created_at < '{{start}}'::timestamptz THEN h.last_seq
            ELSE queen.seq_before(h.partition_id, '{{start}}'::timestamptz) END AS start_seq
FROM queen.partition_lookup h
JOIN queen.partitions p ON p.id = h.partition_id
JOIN queen.queues q ON q.id = h.queue_id
WHERE h.queue_id = '{{queue}}'::uuid AND {{partitions}} AND {{part}}

-- name: cursors
-- Return the cursor of a group, or its start if it has no cursor. With neither, all messages still wait for the
-- group.
SELECT q.name AS queue, h.partition_id::text AS partition_id, h.consumer_group AS consumer_group,
       h.cursor_seq AS cursor_seq
FROM queen.partition_consumers h
JOIN queen.queues q ON q.id = h.queue_id
WHERE h.queue_id = '{{queue}}'::uuid AND {{partitions}} AND {{part}}
UNION ALL
SELECT q.name, h.partition_id::text, g.consumer_group, queen.start_seq(h.partition_id, g.consumer_group)
FROM queen.queues q
CROSS JOIN LATERAL queen.queue_groups(q.id, q.name) g
CROSS JOIN LATERAL queen.queue_start(q.id, q.name, g.consumer_group) s
JOIN queen.partition_lookup h
    ON h.queue_id = q.id AND (s.start_time IS NOT NULL OR h.partition_id = ANY (s.own_ids))
WHERE q.id = '{{queue}}'::uuid AND {{partitions}} AND {{part}} AND NOT EXISTS (
    SELECT FROM queen.partition_consumers c
    WHERE c.partition_id = h.partition_id AND c.consumer_group = g.consumer_group)

-- name: dead_letters
SELECT q.name AS queue, p.name AS partition, h.partition_id::text AS partition_id,
       h.consumer_group AS consumer_group, left(h.error_message, 500) AS error,
       date_bin(make_interval(secs => {{bucket}}), h.failed_at, timestamptz 'epoch') AS bucket_at,
       count(*) AS letters, min(h.failed_at) AS first_at, max(h.failed_at) AS last_at
FROM queen.dead_letter_queue h
JOIN queen.partitions p ON p.id = h.partition_id
JOIN queen.queues q ON q.id = h.queue_id
WHERE h.queue_id = '{{queue}}'::uuid
  AND h.failed_at >= '{{start}}'::timestamptz AND h.failed_at < '{{end}}'::timestamptz AND {{partitions}}
GROUP BY 1, 2, 3, 4, 5, 6

-- name: all_partitions
true

-- name: some_partitions
h.partition_id = ANY ('{{partitions}}'::uuid[])

-- name: part
(uuid_hash_extended(h.partition_id, 0) & 2147483647) % {{parts}} = {{part}}

-- name: publish
SELECT queen.publish_analytics($1::json->'run', $1::json->'tables', ($1::json->>'keep')::integer) AS stored
