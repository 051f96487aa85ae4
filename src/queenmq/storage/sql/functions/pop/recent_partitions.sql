-- The partitions of a queue's newest 5,000 messages, for a queue of many partitions: what has just been pushed is
-- likely to be waiting, and a queue that holds no more than these needs no other search.
--
-- Arguments: p_whole_max, how many partitions are not many.
-- Result: is_all says that the queue holds no other messages. No row for a queue with so few partitions that all of
-- them can be searched, where p_whole_max is NULL, and where no queue is named.
-- Plain SQL without settings of its own, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.recent_partitions(p_queue_name text, p_whole_max integer)
RETURNS TABLE (partition_ids uuid[], is_all boolean)
LANGUAGE sql STABLE
AS $$
    SELECT coalesce(r.ids, '{}'), r.count < 5000
    FROM queen.queues q
    CROSS JOIN LATERAL (
        SELECT array_agg(DISTINCT m.partition_id) AS ids, count(*)
        FROM (SELECT m.partition_id FROM queen.messages m WHERE m.queue_id = q.id
              ORDER BY m.xid DESC LIMIT 5000) m
    ) r
    WHERE q.name = p_queue_name AND p_whole_max IS NOT NULL
      -- By pairs, so that only the index of both is in order, and other queues are not read.
      AND q.id = (SELECT l.queue_id FROM queen.partition_lookup l
                  WHERE (l.queue_id, l.partition_id) > (q.id, '00000000-0000-0000-0000-000000000000')
                  ORDER BY l.queue_id, l.partition_id OFFSET p_whole_max LIMIT 1)
$$;
