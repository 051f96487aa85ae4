-- Delete a consumer group on one queue: its cursors with their leases and, with p_deletes_start, its stored start. A
-- group of the same name then starts over. Dead letters stay.
--
-- A cursor that is being created meanwhile is waited for and removed as well. Brokers are notified on commit, with
-- p_deletes_start also that they have to store the group's start again.
-- Result: how many cursors were removed. The queue need not exist: a start may be remembered before it does.
-- Tables: queues (update); consumer_groups_metadata, partition_consumers (delete). Rows of lease_partitions of these
-- leases are swept later.
-- Locks: the queue's row (FOR NO KEY UPDATE), the advisory lock of the queue and group that create_cursors and
-- subscribe_groups take, metadata rows by partition name, cursor rows in partition id order.
CREATE OR REPLACE FUNCTION queen.delete_group(
    p_consumer_group text,
    p_queue_name text,
    p_deletes_start boolean
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_queue_id uuid;
    v_partition_ids uuid[];
BEGIN
    UPDATE queen.queues SET changed_xid = pg_current_xact_id() WHERE name = p_queue_name
    RETURNING id INTO v_queue_id;
    IF v_queue_id IS NOT NULL THEN
        -- Before the metadata: a subscriber that has this lock goes on to insert there.
        PERFORM pg_advisory_xact_lock(
            hashtextextended(p_consumer_group, hashtextextended(v_queue_id::text, 0)));
    END IF;
    IF p_deletes_start THEN
        PERFORM FROM queen.consumer_groups_metadata g
        WHERE g.queue_name = p_queue_name AND g.consumer_group = p_consumer_group
        ORDER BY g.partition_name FOR UPDATE;
        DELETE FROM queen.consumer_groups_metadata g
        WHERE g.queue_name = p_queue_name AND g.consumer_group = p_consumer_group;
    END IF;
    v_partition_ids := ARRAY(
        SELECT pc.partition_id FROM queen.partition_consumers pc
        WHERE pc.queue_id = v_queue_id AND pc.consumer_group = p_consumer_group
        ORDER BY pc.partition_id
        FOR UPDATE);
    DELETE FROM queen.partition_consumers pc
    WHERE pc.partition_id = ANY (v_partition_ids) AND pc.consumer_group = p_consumer_group;
    PERFORM pg_notify('queen_wake', json_build_object(
        'from', '', 'queues', json_build_array(p_queue_name),
        'groups', CASE WHEN p_deletes_start THEN json_build_array(p_consumer_group) END)::text);
    RETURN cardinality(v_partition_ids);
END
$$;
