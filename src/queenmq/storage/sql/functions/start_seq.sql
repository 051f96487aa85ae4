-- Where a consumer group without a cursor begins in a partition: the sequence number before its first
-- message.
--
-- A start remembered as a time counts from that time. A group remembered as `new` got a cursor in every
-- partition that existed when it subscribed, so a partition without one is younger than the
-- subscription and is delivered whole. Everybody else starts at the oldest message.
CREATE OR REPLACE FUNCTION queen.start_seq(p_partition_id uuid, p_consumer_group text)
RETURNS bigint
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_start timestamptz;
BEGIN
    IF p_consumer_group = '__QUEUE_MODE__' THEN
        RETURN 0;
    END IF;
    SELECT g.subscription_timestamp INTO v_start
    FROM queen.partitions p
    JOIN queen.queues q ON q.id = p.queue_id
    JOIN queen.consumer_groups_metadata g ON g.queue_name = q.name
        AND g.consumer_group = p_consumer_group AND g.partition_name IN ('', p.name)
    WHERE p.id = p_partition_id AND g.subscription_mode = 'timestamp'
    ORDER BY g.partition_name DESC
    LIMIT 1;
    IF v_start IS NULL THEN
        RETURN 0;
    END IF;
    RETURN queen.seq_before(p_partition_id, v_start);
END
$$;
