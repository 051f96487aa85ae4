-- Where a consumer group without a cursor begins in a partition: the sequence number before its first message.
--
-- A partition's own start goes before that of the whole queue; without any, the group begins at the oldest
-- message. The newest message is checked first, so a partition without messages since the start costs no search. Takes
-- no locks.
CREATE OR REPLACE FUNCTION queen.start_seq(p_partition_id uuid, p_consumer_group text)
RETURNS bigint
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_start record;
BEGIN
    SELECT s.start_time, s.start_snapshot, l.last_seq, l.last_message_created_at, l.last_xid
    INTO v_start
    FROM queen.partitions p
    JOIN queen.queues q ON q.id = p.queue_id
    JOIN queen.partition_lookup l ON l.partition_id = p.id
    CROSS JOIN LATERAL queen.group_starts(q.name, p_consumer_group) s
    WHERE p.id = p_partition_id AND s.partition_name IN ('', p.name)
    ORDER BY s.partition_name DESC
    LIMIT 1;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    IF queen.is_before_start(
        v_start.last_message_created_at, v_start.last_xid, v_start.start_time, v_start.start_snapshot) THEN
        RETURN v_start.last_seq;
    END IF;
    RETURN queen.seq_before_start(p_partition_id, v_start.start_time, v_start.start_snapshot);
END
$$;
