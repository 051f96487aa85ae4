-- From which transaction on a consumer group can find work that it has not had: for a group that has subscribed
-- to what is new and has no cursor yet, the oldest that was open then. NULL for every other group.
--
-- With it the first search of a subscriber need not check all partitions. Not where the start counts by time as
-- well (group_starts), nor where a partition has a start of its own.
-- Plain SQL without settings of its own, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.first_horizon(p_queue_name text, p_consumer_group text)
RETURNS xid8
LANGUAGE sql STABLE
AS $$
    SELECT pg_snapshot_xmin(s.start_snapshot)
    FROM queen.queues q
    CROSS JOIN LATERAL queen.queue_start(q.id, q.name, p_consumer_group) s
    WHERE q.name = p_queue_name AND s.start_time = 'infinity' AND s.start_snapshot IS NOT NULL AND s.own_ids IS NULL
      -- The group has no cursor. Written so that only the index can answer it: planned as a join, it may read all
      -- cursors of all groups.
      AND NOT coalesce((SELECT c.queue_id = q.id AND c.consumer_group = p_consumer_group
                        FROM queen.partition_consumers c
                        WHERE (c.queue_id, c.consumer_group) >= (q.id, p_consumer_group)
                        ORDER BY c.queue_id, c.consumer_group LIMIT 1), false)
$$;
