-- Change the start that is remembered for a consumer group, on all queues: partitions in which it has no cursor
-- yet are delivered from p_time on. Cursors stay where they are.
--
-- Result: how many remembered starts were changed; a group that has none gets none.
-- Tables: queues, consumer_groups_metadata (row locks, update).
-- Locks: the queues' rows (FOR NO KEY UPDATE) by name, then metadata rows in key order.
CREATE OR REPLACE FUNCTION queen.set_group_start(p_consumer_group text, p_time timestamptz)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_queue_names text[];
    v_changed bigint;
BEGIN
    v_queue_names := ARRAY(
        SELECT q.name FROM queen.queues q
        WHERE q.name IN (SELECT g.queue_name FROM queen.consumer_groups_metadata g
                         WHERE g.consumer_group = p_consumer_group)
        ORDER BY q.name FOR NO KEY UPDATE);
    -- An earlier start brings old messages into view.
    UPDATE queen.queues SET changed_xid = pg_current_xact_id() WHERE name = ANY (v_queue_names);
    PERFORM FROM queen.consumer_groups_metadata g WHERE g.consumer_group = p_consumer_group
    ORDER BY g.queue_name, g.partition_name FOR UPDATE;
    UPDATE queen.consumer_groups_metadata
    SET subscription_mode = 'timestamp', subscription_timestamp = p_time, start_snapshot = NULL, start_xid = NULL
    WHERE consumer_group = p_consumer_group;
    GET DIAGNOSTICS v_changed = ROW_COUNT;
    PERFORM pg_notify('queen_wake', json_build_object('from', '', 'queues', json_build_array(n))::text)
    FROM unnest(v_queue_names) AS u (n);
    RETURN v_changed;
END
$$;
