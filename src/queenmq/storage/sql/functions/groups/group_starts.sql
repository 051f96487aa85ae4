-- The remembered starts of a consumer group on a queue, as is_before_start takes them: a row for the whole queue
-- (partition_name empty) and one for each partition with a start of its own, as far as there are any.
--
-- A `new` group begins after what its snapshot sees, whatever the clocks say: a message may commit after the
-- subscription with an earlier time. Only in a row that was loaded into another cluster the time counts as well,
-- because messages get small transaction ids there again. The row shows it: its xmin is not what it was.
-- `new` groups without a snapshot were given cursors; where they have none they begin at the oldest message, as
-- the default group always does.
-- Plain SQL without settings of its own, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.group_starts(p_queue_name text, p_consumer_group text)
RETURNS TABLE (partition_name text, start_time timestamptz, start_snapshot pg_snapshot)
LANGUAGE sql STABLE
AS $$
    SELECT g.partition_name::text,
           CASE WHEN g.start_xid::xid = g.xmin THEN 'infinity' ELSE g.subscription_timestamp END,
           g.start_snapshot
    FROM queen.consumer_groups_metadata g
    WHERE g.queue_name = p_queue_name AND g.consumer_group = p_consumer_group
      AND g.consumer_group <> '__QUEUE_MODE__'
      AND (g.subscription_mode = 'timestamp' OR g.start_snapshot IS NOT NULL)
$$;
