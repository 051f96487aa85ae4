-- Where a consumer group begins in the partitions of a queue in which it has no cursor: one row, for joins.
--
-- Result: start_time and start_snapshot for is_before_start, NULL for a group that begins at the oldest message;
-- own_ids, the partitions that have a start of their own (ask start_seq), NULL for none.
-- Plain SQL without settings of its own, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.queue_start(p_queue_id uuid, p_queue_name text, p_consumer_group text)
RETURNS TABLE (start_time timestamptz, start_snapshot pg_snapshot, own_ids uuid[])
LANGUAGE sql STABLE
AS $$
    SELECT (array_agg(s.start_time) FILTER (WHERE s.partition_name = ''))[1],
           (array_agg(s.start_snapshot) FILTER (WHERE s.partition_name = ''))[1],
           array_agg((SELECT p.id FROM queen.partitions p
                      WHERE p.queue_id = p_queue_id AND p.name = s.partition_name))
           FILTER (WHERE s.partition_name <> '')
    FROM queen.group_starts(p_queue_name, p_consumer_group) s
$$;
